-- Reads the ids of a batch's workunits, chunk by chunk.
SELECT id
FROM workunit
WHERE batch_id = %(batch_id)s::bigint AND id > %(after_id)s::bigint
ORDER BY id
LIMIT %(limit)s::integer
