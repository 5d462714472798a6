-- Locks broadcast workunits of which a host has no result yet, oldest first; skips locked rows.
SELECT w.id
FROM workunit AS w
WHERE
    w.broadcast
    -- A literal (INIT), so that a generic plan matches the partial index.
    AND w.assimilate_state = {{AssimilateState.INIT}}
    AND w.app_id = ANY(%(app_ids)s::bigint[])
    AND w.error_mask = 0
    AND w.canonical_result_id IS NULL
    AND w.cancel_requested_at IS NULL
    AND w.release_state = {{ReleaseState.RELEASED}}
    AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
    AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
    AND (w.target_host_id IS NULL OR w.target_host_id = %(host_id)s::bigint)
    AND (w.target_account_id IS NULL OR w.target_account_id = %(account_id)s::bigint)
    AND (w.target_team_id IS NULL OR w.target_team_id = %(team_id)s::bigint)
    AND NOT EXISTS (
        SELECT FROM result AS r
        WHERE
            r.workunit_id = w.id
            AND (
                r.host_id = %(host_id)s::bigint
                OR (r.target_kind = {{Target.HOST}} AND r.target_id = %(host_id)s::bigint)
            )
    )
ORDER BY w.id
LIMIT %(most)s::integer
FOR NO KEY UPDATE OF w SKIP LOCKED
