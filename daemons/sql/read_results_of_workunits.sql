-- All results of locked workunits; a statement of its own, to see what was reported before the lock.
SELECT
    id,
    workunit_id,
    name,
    attempt,
    server_state,
    outcome,
    validate_state,
    file_delete_state,
    exit_status,
    sent_at,
    report_deadline,
    credit_deadline
FROM result
WHERE workunit_id = any(%(workunit_ids)s::bigint[])
ORDER BY workunit_id, id
