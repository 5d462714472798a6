-- Moves the deadlines of results of locked workunits.
UPDATE result AS r
SET
    report_deadline = u.report_deadline,
    credit_deadline = u.credit_deadline
FROM unnest(
    %(ids)s::bigint[], %(report_deadlines)s::timestamptz[], %(credit_deadlines)s::timestamptz[]
) AS u (id, report_deadline, credit_deadline)
WHERE r.id = u.id
