-- When the oldest of some workunits was submitted.
SELECT min(created_at) AS oldest
FROM workunit
WHERE id = any(%(ids)s::bigint[])
