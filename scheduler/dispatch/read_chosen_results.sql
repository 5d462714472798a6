-- Reads all results of locked workunits, oldest first: which may still be sent, and who has or had
-- the others.  It is a statement of its own after the lock: only a snapshot taken then contains
-- every result that was assigned to another host meanwhile (docs/decisions/0002).
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
