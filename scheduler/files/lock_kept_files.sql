-- Locks files that are not marked for deletion, by ascending id; the deleter waits for the commit.
SELECT id
FROM file
WHERE
    id = any(%(ids)s::bigint[])
    AND (doomed_at IS NULL) IS TRUE
ORDER BY id
FOR SHARE
