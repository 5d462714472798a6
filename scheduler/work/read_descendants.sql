-- Reads the edges that can be reached from the children of new edges, from parents to children.
-- Reads none if no parent of a new edge is reached: then existing edges are in no cycle.
WITH RECURSIVE reached AS (
    SELECT
        parent_id,
        child_id
    FROM dependency
    WHERE parent_id = any(%(child_ids)s::bigint[])
    -- Edges that were reached before are left out, so the search ends.
    UNION
    SELECT
        d.parent_id,
        d.child_id
    FROM reached
    -- One look-up per row: while a new table has no statistics, a join may read the whole table.
    CROSS JOIN LATERAL (
        SELECT
            parent_id,
            child_id
        FROM dependency
        WHERE dependency.parent_id = reached.child_id
        OFFSET 0
    ) AS d
)

SELECT
    parent_id,
    child_id
FROM reached
WHERE EXISTS (SELECT FROM reached AS r WHERE r.child_id = any(%(parent_ids)s::bigint[]))
