-- Locks a batch's failed, not yet retried workunits that have dependencies, with the workunits for
-- which they wait and the retries of these.  Without these locks, a workunit that ends meanwhile
-- would not see the new edges, and would not wake the retries.  Without `batch_id`, those without a
-- batch.
WITH RECURSIVE of_batch AS (
    SELECT
        id,
        name
    FROM workunit
    WHERE batch_id = %(batch_id)s::bigint AND has_parents AND error_mask <> 0 AND retried_as IS NULL
    UNION ALL
    SELECT
        id,
        name
    FROM workunit
    WHERE
        %(batch_id)s::bigint IS NULL
        AND batch_id IS NULL
        AND has_parents
        AND error_mask <> 0
        AND retried_as IS NULL
),

failed AS (
    SELECT of_batch.id
    FROM of_batch
    WHERE %(names)s::text[] IS NULL OR of_batch.name = any(%(names)s::text[])
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
