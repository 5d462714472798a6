-- Finds files by content or by name that are not marked for deletion, and locks them until commit.
-- Contents and names have separate lookups: with one condition, generic plans read the whole table.
WITH matching AS (
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
    id = any(array(SELECT id FROM matching))
    -- This form keeps the planner from reading the whole partial index.
    AND (doomed_at IS NULL) IS TRUE
ORDER BY id
FOR SHARE
