-- Locks queues against a change of what they accept, and reads it.  One table, so that a row that
-- another transaction has changed meanwhile is read again.
SELECT
    id,
    app_id,
    trusted
FROM queue
WHERE id = any(%(queue_ids)s::bigint[])
ORDER BY id
FOR KEY SHARE
