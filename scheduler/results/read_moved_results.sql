-- Reads results of locked workunits whose deadlines an outage may move.
SELECT
    id,
    sent_at,
    report_deadline,
    credit_deadline
FROM result
WHERE
    workunit_id = any(%(workunit_ids)s::bigint[])
    AND id > %(after)s::bigint
    AND id <= %(up_to)s::bigint
    AND sent_at IS NOT NULL
    -- In progress, or timed out and still accepted for credit.
    AND (
        server_state = {{ServerState.IN_PROGRESS}}
        OR (
            server_state = {{ServerState.OVER}}
            AND outcome = {{Outcome.NO_REPLY}}
            AND credit_deadline > %(began_at)s::timestamptz
        )
    )
ORDER BY id
