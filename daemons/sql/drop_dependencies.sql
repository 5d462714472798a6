-- Drop the edges of locked workunits.  Edges are locked in ascending id, because two purgers may
-- drop the two ends of an edge.
WITH doomed AS (
    SELECT id
    FROM dependency
    WHERE
        parent_id = any(%(ids)s::bigint[])
        OR child_id = any(%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
)

DELETE FROM dependency
WHERE id IN (SELECT id FROM doomed)
