-- Locks files that are not doomed, in ascending id: the deleter waits until we commit.
SELECT id
FROM file
WHERE
    id = any(%(ids)s::bigint[])
    AND (doomed_at IS NULL) IS TRUE
ORDER BY id
FOR SHARE
