-- Reads the best unsent results of each app a host can run, without locks, one page per app.
-- What makes a workunit not sendable now, and whose account or host has had it, is left out here, so
-- that a page is full of work that can be judged; the claim checks all of it again under locks.
-- The literal 2 (UNSENT) lets the planner use the partial index read_candidates.
SELECT candidate.*
FROM unnest(
    %(app_ids)s::bigint[],
    %(one_result_per)s::text[],
    %(retry_after)s::interval[],
    %(after_priority)s::integer[],
    %(after_id)s::bigint[]
) AS lane (app_id, one_result_per, retry_after, after_priority, after_id)
CROSS JOIN LATERAL (
    SELECT
        r.id AS result_id,
        r.workunit_id,
        r.app_id,
        r.priority,
        w.rsc_fpops_est,
        w.rsc_memory_bound,
        w.rsc_disk_bound,
        w.delay_bound,
        w.hr_class,
        w.app_version_id,
        w.app_version_num
    FROM result AS r
    INNER JOIN workunit AS w ON r.workunit_id = w.id
    WHERE
        r.app_id = lane.app_id
        AND r.server_state = 2
        AND r.priority <= lane.after_priority
        AND (r.priority < lane.after_priority OR r.id > lane.after_id)
        AND w.error_mask = 0
        AND w.canonical_result_id IS NULL
        AND w.cancel_requested_at IS NULL
        AND w.release_state = 3
        AND w.pending_dependency_count = 0
        AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
        AND (w.start_before IS NULL OR w.start_before > %(now)s::timestamptz)
        AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
        AND NOT EXISTS (
            SELECT 1
            FROM result AS o
            WHERE
                o.workunit_id = r.workunit_id
                AND (
                    (o.host_id = %(host_id)s::bigint AND o.server_state = 4)
                    OR (
                        (
                            (
                                lane.one_result_per = 'account'
                                AND o.account_id = %(account_id)s::bigint
                            )
                            OR (
                                lane.one_result_per = 'host'
                                AND o.host_id = %(host_id)s::bigint
                            )
                        )
                        AND NOT (
                            o.server_state = 5
                            AND o.outcome <> 1
                            AND coalesce(o.received_at, o.report_deadline) + lane.retry_after
                            <= %(now)s::timestamptz
                        )
                    )
                )
        )
    ORDER BY r.priority DESC, r.id ASC
    LIMIT %(page)s::integer
) AS candidate
