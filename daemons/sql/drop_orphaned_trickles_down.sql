-- Drop trickles for results whose rows were dropped.
WITH old AS (
    SELECT id
    FROM trickle_down AS kept
    WHERE
        id > %(after)s::bigint
        AND created_at < %(before)s::timestamptz
        AND NOT EXISTS (SELECT FROM result AS r WHERE r.id = kept.result_id)
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM trickle_down
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
