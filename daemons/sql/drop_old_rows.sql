-- Drop the rows of a table whose time is before `before`.
WITH old AS (
    SELECT id
    FROM {{table}}
    WHERE
        id > %(after)s::bigint
        AND {{time}} < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM {{table}}
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
