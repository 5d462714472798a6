-- Locks those of some failed workunits that have dependencies and were not retried, with the workunits
-- for which they wait and the retries of these.  Without these locks, a workunit that ends meanwhile
-- would not see the new edges, and would not wake the retries.
WITH RECURSIVE failed AS (
    SELECT id
    FROM workunit
    WHERE id = any(%(ids)s::bigint[]) AND has_parents AND retried_as IS NULL
),

linked AS (
    SELECT d.parent_id AS id
    FROM failed
    -- One look-up per row: while a new table has no statistics, a join may read the whole table.
    CROSS JOIN LATERAL (SELECT parent_id FROM dependency WHERE child_id = failed.id OFFSET 0) AS d
    UNION
    SELECT w.retried_as
    FROM linked
    INNER JOIN workunit AS w ON linked.id = w.id
    WHERE w.retried_as IS NOT NULL
)

SELECT id
FROM workunit
WHERE id = any(array(SELECT failed.id FROM failed UNION SELECT linked.id FROM linked))
ORDER BY id
FOR NO KEY UPDATE
