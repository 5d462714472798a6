-- Copies the edges of failed children to their retries; retried parents are replaced, too.
-- The graph of the retries is a copy of a graph without cycles, so it has no cycle either.  The
-- caller has locked the parents and their retries (`lock_failed_graph`).
WITH RECURSIVE link AS (
    SELECT
        d.parent_id,
        child.retried_as AS child_id
    FROM unnest(%(ids)s::bigint[]) AS failed (id)
    -- One look-up per row: while a new table has no statistics, a join may read the whole table.
    CROSS JOIN LATERAL (SELECT retried_as FROM workunit WHERE id = failed.id OFFSET 0) AS child
    CROSS JOIN LATERAL (SELECT parent_id FROM dependency WHERE child_id = failed.id OFFSET 0) AS d
    WHERE child.retried_as IS NOT NULL
    UNION
    -- A retry may have been retried itself.
    SELECT
        parent.retried_as,
        link.child_id
    FROM link
    CROSS JOIN LATERAL (SELECT retried_as FROM workunit WHERE id = link.parent_id OFFSET 0) AS parent
    WHERE parent.retried_as IS NOT NULL
)

INSERT INTO dependency (parent_id, child_id)
SELECT
    link.parent_id,
    link.child_id
FROM link
-- The purger has dropped retries that ended and had no children.
CROSS JOIN LATERAL (SELECT retried_as FROM workunit WHERE id = link.parent_id OFFSET 0) AS parent
WHERE parent.retried_as IS NULL
RETURNING child_id
