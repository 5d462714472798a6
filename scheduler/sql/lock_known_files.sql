-- Files that are known by content or by name and not doomed, safe from the deleter until we commit.
SELECT id, name, sha256
FROM file
WHERE
    doomed_at IS NULL
    AND (
        sha256 = any(%(contents)s::text[])
        OR name = any(%(names)s::text[])
    )
ORDER BY id
FOR SHARE
