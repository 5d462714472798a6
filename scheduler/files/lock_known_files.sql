-- Files that are known by content or by name and not doomed, safe from the deleter until we commit.
-- Each is looked up by itself: in one condition, generic plans read all files there are.
WITH known AS (
    SELECT by_content.id
    FROM unnest(%(contents)s::text[]) AS wanted (sha256)
    CROSS JOIN LATERAL (
        SELECT id
        FROM file
        WHERE sha256 = wanted.sha256 AND doomed_at IS NULL
        LIMIT 1
    ) AS by_content
    UNION ALL
    SELECT by_name.id
    FROM unnest(%(names)s::text[]) AS wanted (name)
    CROSS JOIN LATERAL (
        SELECT id
        FROM file
        WHERE name = wanted.name
        LIMIT 1
    ) AS by_name
)

SELECT id, name, sha256, nbytes
FROM file
WHERE
    id = any(array(SELECT id FROM known))
    -- In words that the partial index does not answer to: it would be read from end to end.
    AND (doomed_at IS NULL) IS TRUE
ORDER BY id
FOR SHARE
