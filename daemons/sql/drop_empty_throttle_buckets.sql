-- Drop throttle buckets that are empty again: a missing row is an empty bucket.
WITH old AS (
    SELECT id
    FROM throttle_bucket
    WHERE
        id > %(after)s::bigint
        AND empty_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM throttle_bucket
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
