-- Drop usage samples of results whose rows were dropped.
WITH old AS (
    SELECT id
    FROM usage_sample AS kept
    WHERE
        id > %(after)s::bigint
        AND at < %(before)s::timestamptz
        AND NOT EXISTS (SELECT FROM result AS r WHERE r.id = kept.result_id)
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM usage_sample
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
