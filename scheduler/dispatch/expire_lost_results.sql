-- Expires the deadlines of lost results that are not resent, so that the time-out checker ends
-- them.  Rows that other transactions hold are skipped and keep their deadline.
UPDATE result
SET report_deadline = %(now)s::timestamptz - interval '1 second'
WHERE
    id = ANY(
        array(
            SELECT lost.id
            FROM result AS lost
            WHERE
                lost.id = ANY(%(result_ids)s::bigint[])
                -- The state IN_PROGRESS.  No partial index matches this expression, so that the row
                -- is found by its id.
                AND lost.server_state * 10 + lost.outcome = {{ResultState.IN_PROGRESS}}
                AND lost.report_deadline > %(now)s::timestamptz
            FOR NO KEY UPDATE SKIP LOCKED
        )
    )
