-- Lets the time-out checker give up at once on lost results that are not sent again; those that
-- others hold are left to their old deadline, or to the next request.
UPDATE result
SET report_deadline = %(now)s::timestamptz - interval '1 second'
WHERE
    id = ANY(
        array(
            SELECT lost.id
            FROM result AS lost
            WHERE
                lost.id = ANY(%(result_ids)s::bigint[])
                -- IN_PROGRESS, in words that no partial index answers: it is found by its id.
                AND lost.server_state * 10 + lost.outcome = 40
                AND lost.report_deadline > %(now)s::timestamptz
            FOR NO KEY UPDATE SKIP LOCKED
        )
    )
