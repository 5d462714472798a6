-- Reads all results of locked workunits with their state and host, oldest first.  It is a separate
-- statement after the lock, because only a snapshot taken under the lock contains every result that
-- other transactions assigned before (docs/decisions/0002).
SELECT
    id,
    workunit_id,
    server_state,
    outcome,
    target_kind,
    target_id,
    host_id,
    account_id,
    coalesce(received_at, report_deadline) AS ended_at
FROM result
WHERE workunit_id = ANY(%(workunit_ids)s::bigint[])
ORDER BY id
