-- Locks files by id, in ascending order, against submissions and deleters.
SELECT id
FROM file
WHERE id = any(%(ids)s::bigint[])
ORDER BY id
FOR UPDATE
