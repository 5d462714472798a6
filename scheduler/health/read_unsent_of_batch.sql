-- Workunits of a batch with unsent results for everybody, so many at most, in no order: with one, a
-- primary key would be walked.  LIMIT 1 keeps the unsent results of other batches unread.
SELECT workunit.id
FROM workunit
CROSS JOIN LATERAL (
    SELECT result.id
    FROM result
    WHERE result.workunit_id = workunit.id AND result.server_state = 2
    LIMIT 1
) AS unsent
WHERE
    workunit.batch_id = %(batch_id)s::bigint
    AND workunit.canonical_result_id IS NULL
    AND workunit.error_mask = 0
    AND workunit.release_state = 3
    AND coalesce(workunit.start_after <= %(now)s::timestamptz, TRUE)
    AND workunit.target_host_id IS NULL
    AND workunit.target_account_id IS NULL
    AND workunit.target_team_id IS NULL
    AND NOT workunit.broadcast
LIMIT %(limit)s::integer
