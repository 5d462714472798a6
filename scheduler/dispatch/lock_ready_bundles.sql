-- Locks the first chosen task lists that can still be claimed and are not locked by other
-- transactions.
SELECT b.id
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS chosen (id, position)
INNER JOIN bundle AS b ON chosen.id = b.id
WHERE b.is_ready
ORDER BY chosen.position
LIMIT %(most)s::integer
FOR NO KEY UPDATE OF b SKIP LOCKED
