-- Claim unhandled trickles by a lease, and read the data for their handlers; skip parked trickles.
WITH chosen AS (
    SELECT t.id
    FROM trickle_up AS t
    WHERE
        t.handled_at IS NULL
        AND (t.handle_after IS NULL OR t.handle_after <= %(now)s::timestamptz)
        AND t.result_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
        AND NOT EXISTS (
            SELECT FROM science_failure AS f
            WHERE f.stage = 3 AND f.subject_id = t.id AND f.parked_at IS NOT NULL
        )
    ORDER BY t.id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

claimed AS (
    UPDATE trickle_up AS t
    SET handle_after = %(lease_until)s::timestamptz
    FROM chosen
    WHERE t.id = chosen.id
    RETURNING t.*
)

SELECT
    claimed.id,
    claimed.result_id,
    claimed.host_id,
    claimed.app_id,
    claimed.variety,
    claimed.text,
    claimed.said_at,
    claimed.received_at,
    app.name AS app,
    app.trickle_handlers,
    app.science_time_limit,
    r.name AS result_name,
    r.workunit_id,
    r.report_deadline,
    r.sent_at,
    w.name AS workunit_name,
    EXISTS (
        SELECT FROM science_failure AS f WHERE f.stage = 3 AND f.subject_id = claimed.id
    ) AS has_failed
FROM claimed
INNER JOIN app ON claimed.app_id = app.id
LEFT JOIN result AS r ON claimed.result_id = r.id
LEFT JOIN workunit AS w ON r.workunit_id = w.id
ORDER BY claimed.id
