-- Reads a limited number of a batch's workunits with untargeted unsent results.  With an
-- ORDER BY, the planner would scan a primary key.  LIMIT 1 avoids reading other batches' results.
SELECT workunit.id
FROM workunit
CROSS JOIN LATERAL (
    SELECT result.id
    FROM result
    WHERE result.workunit_id = workunit.id AND result.server_state = {{ServerState.UNSENT}}
    LIMIT 1
) AS unsent
WHERE
    workunit.batch_id = %(batch_id)s::bigint
    AND workunit.canonical_result_id IS NULL
    AND workunit.error_mask = 0
    AND workunit.release_state = {{ReleaseState.RELEASED}}
    AND coalesce(workunit.start_after <= %(now)s::timestamptz, TRUE)
    AND workunit.target_host_id IS NULL
    AND workunit.target_account_id IS NULL
    AND workunit.target_team_id IS NULL
    AND NOT workunit.broadcast
LIMIT %(limit)s::integer
