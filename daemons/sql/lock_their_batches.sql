-- Lock the batches of workunits that will be dropped, before the workunits, in ascending id.
SELECT b.id
FROM batch AS b
WHERE
    b.id IN (
        SELECT w.batch_id
        FROM workunit AS w
        WHERE w.id = any(%(ids)s::bigint[]) AND w.batch_id IS NOT NULL
    )
ORDER BY b.id
FOR NO KEY UPDATE OF b
