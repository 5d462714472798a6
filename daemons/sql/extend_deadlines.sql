-- Extend deadlines of results in progress whose workunits are locked, unless the deadline is past.
UPDATE result AS r
SET
    report_deadline = r.report_deadline + make_interval(secs => u.seconds),
    credit_deadline = r.credit_deadline + make_interval(secs => u.seconds)
FROM unnest(%(ids)s::bigint[], %(seconds)s::double precision[]) AS u (id, seconds)
WHERE
    r.id = u.id
    AND r.server_state = {{ServerState.IN_PROGRESS}}
    AND r.report_deadline > %(now)s::timestamptz
