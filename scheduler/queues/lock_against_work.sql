-- Locks a queue, unless a transaction that inserts workunits into it is running.
SELECT id
FROM queue
WHERE id = %(queue_id)s::bigint
FOR UPDATE SKIP LOCKED
