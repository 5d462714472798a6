-- Drop idempotency keys that are too old to be repeated.
WITH old AS (
    SELECT id
    FROM idempotency_key
    WHERE
        id > %(after)s::bigint
        AND created_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM idempotency_key
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
