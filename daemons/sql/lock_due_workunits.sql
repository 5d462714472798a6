-- Lock due workunits in ascending order of due times; skip workunits locked by another pass.
-- Identifying columns come first, then the columns that the transitioner's rules use.
-- The due time is not read, because decoding a time takes longer than judging a workunit.
SELECT
    id,
    name,
    app_id,
    priority,
    canonical_result_id,
    min_quorum,
    target_nresults,
    max_error_results,
    max_total_results,
    max_success_results,
    max_timeouts,
    hr_class,
    app_version_id,
    start_after,
    start_before,
    end_before,
    release_state,
    pending_dependency_count,
    cancel_requested_at,
    error_mask,
    need_validate,
    assimilate_state,
    file_delete_state,
    unsendable_at,
    revalidate_requested_at,
    broadcast,
    dependency_failed_at,
    outputs_kept,
    -- Computed only for apps that end a workunit if no other account (or host) can try it.
    CASE
        WHEN canonical_result_id IS NULL AND error_mask = 0
            THEN (
                SELECT
                    NOT EXISTS (
                        SELECT
                        FROM host AS h
                        INNER JOIN account AS a ON h.account_id = a.id
                        WHERE
                            h.rpc_at > %(seen_since)s::timestamptz
                            AND NOT h.denied
                            AND h.merged_into_id IS NULL
                            AND h.id = coalesce(workunit.target_host_id, h.id)
                            AND a.id = coalesce(workunit.target_account_id, a.id)
                            AND (
                                workunit.target_team_id IS NULL
                                OR a.team_id = workunit.target_team_id
                            )
                            AND NOT EXISTS (
                                SELECT
                                FROM result AS r
                                WHERE
                                    r.workunit_id = workunit.id
                                    AND r.sent_at IS NOT NULL
                                    AND CASE app.one_result_per
                                        WHEN 'host' THEN r.host_id = h.id
                                        ELSE r.account_id = a.id
                                    END
                            )
                            -- A host with a confirmed refusal cannot compute the workunit.
                            AND NOT EXISTS (
                                SELECT
                                FROM refusal AS f
                                CROSS JOIN LATERAL (
                                    SELECT max(v.created_at) AS created_at
                                    FROM app_version AS v
                                    WHERE v.app_id = workunit.app_id
                                ) AS newest
                                WHERE
                                    f.workunit_id = workunit.id
                                    AND f.host_id = h.id
                                    AND f.at >= coalesce(newest.created_at, f.at)
                                    AND (
                                        f.counts_at_once
                                        OR f.at >= greatest(f.first_at, newest.created_at)
                                        + %(counts_after)s::interval
                                    )
                            )
                    )
                FROM app
                WHERE
                    app.id = workunit.app_id
                    AND app.fail_when_all_tried
                    AND app.one_result_per != 'nothing'
            )
    END AS all_tried,
    CASE WHEN canonical_result_id IS NULL AND error_mask = 0 THEN delay_bound END AS delay_bound,
    CASE
        WHEN assimilate_state = {{AssimilateState.DONE}}
            THEN (
                SELECT app.delete_delay
                FROM app
                WHERE app.id = workunit.app_id AND app.delete_delay > '0'::interval
            )
    END AS delete_delay
FROM workunit
WHERE
    transition_at <= %(now)s::timestamptz
    AND transition_at >= %(since)s::timestamptz
    AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
ORDER BY transition_at
LIMIT %(limit)s::bigint
FOR NO KEY UPDATE SKIP LOCKED
