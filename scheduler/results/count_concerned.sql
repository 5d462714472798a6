-- Counts the results in progress whose report deadlines an outage would move, up to a limit.
SELECT count(*) AS results
FROM (
    SELECT id
    FROM result
    WHERE
        server_state = {{ServerState.IN_PROGRESS}}
        AND report_deadline > %(began_at)s::timestamptz
        AND sent_at < %(ended_at)s::timestamptz
    ORDER BY report_deadline
    LIMIT %(limit)s::bigint
) AS concerned
