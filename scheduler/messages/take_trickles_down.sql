-- Returns the pending trickles to a host's results and marks them as sent, because clients do not
-- acknowledge trickles.
UPDATE trickle_down
SET sent_at = %(now)s::timestamptz
WHERE
    host_id = %(host_id)s::bigint
    AND id = any(ARRAY(
        SELECT waiting.id
        FROM trickle_down AS waiting
        WHERE waiting.host_id = %(host_id)s::bigint AND waiting.sent_at IS NULL
        ORDER BY waiting.id
        LIMIT %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    ))
RETURNING
    id,
    result_name,
    created_at,
    text
