-- Locks the results of locked workunits in ascending order of id and reads their state.
SELECT
    r.id,
    r.workunit_id,
    r.account_id,
    r.host_id,
    r.server_state * 10 + r.outcome AS state,
    r.file_delete_state,
    r.sent_at,
    r.received_at
FROM result AS r
WHERE r.id = ANY(%(result_ids)s::bigint[])
ORDER BY r.id
FOR NO KEY UPDATE
