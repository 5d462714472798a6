-- Drop networks whose last login of an account is too long ago.
WITH old AS (
    SELECT id
    FROM login_network
    WHERE
        id > %(after)s::bigint
        AND last_login_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM login_network
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
