-- Locks workunits that wait for a task list, except those that other transactions hold.
SELECT id
FROM workunit
WHERE
    id = ANY(%(ids)s::bigint[])
    AND bundle_id = 0
    AND batch_id IS NOT NULL
ORDER BY id
FOR NO KEY UPDATE SKIP LOCKED
