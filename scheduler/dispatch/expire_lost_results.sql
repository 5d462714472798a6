-- Sets deadlines so that the time-out checker gives up lost results that are not resent; rows that
-- others hold keep their old deadline, or wait for the next request.
UPDATE result
SET report_deadline = %(now)s::timestamptz - interval '1 second'
WHERE
    id = ANY(
        array(
            SELECT lost.id
            FROM result AS lost
            WHERE
                lost.id = ANY(%(result_ids)s::bigint[])
                -- IN_PROGRESS, written so that no partial index matches: the row is found by its
                -- id.
                AND lost.server_state * 10 + lost.outcome = {{ResultState.IN_PROGRESS}}
                AND lost.report_deadline > %(now)s::timestamptz
            FOR NO KEY UPDATE SKIP LOCKED
        )
    )
