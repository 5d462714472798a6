-- Drop the heartbeats of parts of the server that no longer exist.
WITH old AS (
    SELECT id
    FROM heartbeat
    WHERE
        id > %(after)s::bigint
        AND seen_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM heartbeat
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
