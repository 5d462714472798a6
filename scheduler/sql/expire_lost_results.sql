-- Lets the time-out checker give up at once on lost results that are not sent again.
UPDATE result
SET report_deadline = %(now)s::timestamptz - interval '1 second'
WHERE
    id = ANY(%(result_ids)s::bigint[])
    AND server_state = 4
    AND report_deadline > %(now)s::timestamptz
