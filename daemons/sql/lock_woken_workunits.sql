-- Lock the workunits of the next wake-ups, and delete the wake-ups of these workunits.  Workunits
-- that other transactions have locked are skipped, and keep their wake-ups.  Wake-ups of workunits
-- that no longer exist are deleted, too.  The columns after the workunit's are the last id and the
-- number of the wake-ups that were read; if no workunit was locked, the others are NULL.
-- The wake-ups that are read, and those that are deleted, belong to one snapshot, so a wake-up that
-- is inserted meanwhile is never deleted.  Identifying columns come first, then the columns that
-- the transitioner's rules use.
WITH read AS (
    SELECT
        id,
        workunit_id
    FROM workunit_wakeup
    WHERE
        id > %(after)s::bigint
        -- CASE makes PostgreSQL expect half of the rows.  It expects very few rows with one remainder,
        -- so it would read and sort the whole queue in each pass.
        AND CASE
            WHEN workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint THEN TRUE
            ELSE FALSE
        END
    ORDER BY id
    LIMIT %(limit)s::bigint
),

locked AS (
    SELECT
        id,
        name,
        app_id,
        priority,
        bundle_id,
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
        has_parents,
        has_children,
        is_group,
        -- Computed only for apps that end a workunit if no other account (or host) can try it.
        -- The first EXISTS is evaluated once, the rest for each workunit.
        CASE
            WHEN
                canonical_result_id IS NULL
                AND error_mask = 0
                AND EXISTS (SELECT FROM app WHERE app.fail_when_all_tried)
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
        CASE
            WHEN canonical_result_id IS NULL AND error_mask = 0 THEN delay_bound
        END AS delay_bound,
        CASE
            WHEN assimilate_state = {{AssimilateState.DONE}}
                THEN (
                    SELECT app.delete_delay
                    FROM app
                    WHERE app.id = workunit.app_id AND app.delete_delay > '0'::interval
                )
        END AS delete_delay
    FROM workunit
    -- An array makes PostgreSQL use the primary key, also for tables that were never analyzed.
    WHERE id = any(array(SELECT read.workunit_id FROM read))
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

deleted AS (
    DELETE FROM workunit_wakeup
    WHERE
        id = any(
            array(
                SELECT read.id
                FROM read
                LEFT JOIN locked ON read.workunit_id = locked.id
                LEFT JOIN LATERAL (
                    -- OFFSET 0 makes PostgreSQL look up each of these workunits.
                    SELECT w.id FROM workunit AS w
                    WHERE w.id = read.workunit_id AND locked.id IS NULL
                    OFFSET 0
                ) AS skipped ON TRUE
                WHERE skipped.id IS NULL
            )
        )
    RETURNING workunit_id
),

-- Another pass may have deleted the wake-ups before the workunit was locked: that pass has looked.
taken AS (
    SELECT * FROM locked
    WHERE id IN (SELECT deleted.workunit_id FROM deleted)
),

head AS (
    SELECT
        max(id) AS last_wakeup,
        count(*) AS wakeup_count
    FROM read
)

SELECT
    taken.*,
    head.last_wakeup,
    head.wakeup_count
FROM head
LEFT JOIN taken ON TRUE
