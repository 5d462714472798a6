-- Drop handled trickles whose contents are in the usage samples.
WITH old AS (
    SELECT kept.id
    FROM trickle_up AS kept
    INNER JOIN app ON kept.app_id = app.id
    WHERE
        kept.id > %(after)s::bigint
        AND kept.received_at < %(before)s::timestamptz
        AND kept.handled_at IS NOT NULL
        AND kept.variety = any(%(varieties)s::text[])
        -- The app's own handler of a variety may use it for something else.
        AND NOT coalesce(app.trickle_handlers, '{}'::jsonb) ? kept.variety
    ORDER BY kept.id
    LIMIT %(limit)s::bigint
    FOR UPDATE OF kept SKIP LOCKED
),

dropped AS (
    DELETE FROM trickle_up
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
