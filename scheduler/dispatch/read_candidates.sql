-- Reads the next page of unsent results of each candidate stream, best first, without locks.  A
-- stream is an app's results for all hosts, for one host, account or team, or of one queue.  In
-- addition, the results of the workunits `near_workunit_ids` are read, as stream -1.
--
-- At equal priority the oldest workunit comes first, so that its replicas and retries are sent
-- before work that was submitted later.  A page is cut along the index before other tables are
-- read, so that its cost depends only on its number of rows, not on the planner's estimates for the
-- filters.  The index is ordered by `priority # -1` (highest priority first), so that one row
-- comparison finds the start of a page.  The literal of UNSENT matches the partial index
-- read_candidates.
--
-- The streams of queues of the order fifo or lifo (`lanes`) ignore priorities: they are read in the
-- order of their workunits, along the index results_of_queue.
--
-- `by_hosts` and `by_accounts` are the requesting hosts and accounts that must not receive the
-- result.  Only sendable rows are returned, and also the first and last row of each page, because
-- the caller needs the cursors at both ends.  The claim repeats all checks under locks.
SELECT
    page.stream,
    page.position,
    (w.id IS NOT NULL) AS sendable,
    taken.by_hosts,
    taken.by_accounts,
    -- The columns of `dispatch.facts.Candidate` follow.
    page.result_id,
    page.workunit_id,
    page.priority,
    page.app_id,
    w.rsc_fpops_est,
    w.rsc_memory_bound,
    w.rsc_disk_bound,
    w.delay_bound,
    w.rsc_bandwidth_bound,
    w.hr_class,
    w.app_version_id,
    w.app_version_num,
    w.target_nresults,
    w.output_bytes,
    w.requested_cpus,
    w.requested_gpus,
    coalesce(page.reliable_until > %(now)s::timestamptz, FALSE) AS reserved,
    page.target_kind,
    w.size_class,
    w.keywords,
    FALSE AS is_near,
    CASE WHEN page.target_kind = {{Target.QUEUE}} THEN page.target_id ELSE 0 END AS queue_id
FROM (
    SELECT
        cut.*,
        row_number() OVER (
            PARTITION BY cut.stream
            ORDER BY cut.priority DESC, cut.rank ASC, cut.result_id ASC
        ) AS position,
        count(*) OVER (PARTITION BY cut.stream) AS page_rows
    FROM (
        SELECT
            stream.stream,
            along.*,
            stream.one_result_per,
            stream.retry_after
        FROM unnest(
            %(streams)s::integer[],
            %(app_ids)s::bigint[],
            %(target_kinds)s::smallint[],
            %(target_ids)s::bigint[],
            %(one_result_per)s::text[],
            %(retry_after)s::interval[],
            %(after_priority)s::integer[],
            %(after_id)s::bigint[],
            %(pages)s::integer[]
        ) AS stream (
            stream, app_id, target_kind, target_id, one_result_per, retry_after, after_priority,
            after_id, page
        )
        CROSS JOIN LATERAL (
            SELECT
                r.id AS result_id,
                r.workunit_id,
                r.app_id,
                r.priority,
                r.target_kind,
                r.target_id,
                r.reliable_until,
                r.workunit_id AS rank
            FROM result AS r
            WHERE
                r.app_id = stream.app_id
                AND r.target_kind = stream.target_kind
                AND r.target_id = stream.target_id
                AND r.server_state = {{ServerState.UNSENT}}
                AND (r.priority # -1, r.workunit_id) > (stream.after_priority # -1, stream.after_id)
            ORDER BY r.priority # -1 ASC, r.workunit_id ASC
            LIMIT stream.page
        ) AS along
        UNION ALL
        SELECT
            -1,
            r.id,
            r.workunit_id,
            r.app_id,
            r.priority,
            r.target_kind,
            r.target_id,
            r.reliable_until,
            r.workunit_id AS rank,
            a.one_result_per,
            a.retry_same_account_after
        FROM result AS r
        INNER JOIN app AS a ON r.app_id = a.id
        WHERE
            r.workunit_id = ANY(%(near_workunit_ids)s::bigint[])
            AND r.server_state = {{ServerState.UNSENT}}
            AND r.target_kind = {{Target.EVERYBODY}}
        UNION ALL
        SELECT
            lane.stream,
            along.*,
            lane.one_result_per,
            lane.retry_after
        FROM unnest(
            %(lanes)s::integer[],
            %(lane_app_ids)s::bigint[],
            %(lane_queue_ids)s::bigint[],
            %(lane_one_result_per)s::text[],
            %(lane_retry_after)s::interval[],
            %(lane_after_id)s::bigint[],
            %(lane_pages)s::integer[],
            %(lane_is_lifo)s::boolean[]
        ) AS lane (
            stream, app_id, queue_id, one_result_per, retry_after, after_id, page, is_lifo
        )
        CROSS JOIN LATERAL (
            (
                SELECT
                    r.id AS result_id,
                    r.workunit_id,
                    r.app_id,
                    0 AS priority,
                    r.target_kind,
                    r.target_id,
                    r.reliable_until,
                    r.workunit_id AS rank
                FROM result AS r
                WHERE
                    NOT lane.is_lifo
                    AND r.target_kind = {{Target.QUEUE}}
                    AND r.target_id = lane.queue_id
                    AND r.server_state = {{ServerState.UNSENT}}
                    AND r.app_id = lane.app_id
                    AND r.workunit_id > lane.after_id
                ORDER BY r.workunit_id ASC
                LIMIT lane.page
            )
            UNION ALL
            (
                SELECT
                    r.id AS result_id,
                    r.workunit_id,
                    r.app_id,
                    0 AS priority,
                    r.target_kind,
                    r.target_id,
                    r.reliable_until,
                    -r.workunit_id AS rank
                FROM result AS r
                WHERE
                    lane.is_lifo
                    AND r.target_kind = {{Target.QUEUE}}
                    AND r.target_id = lane.queue_id
                    AND r.server_state = {{ServerState.UNSENT}}
                    AND r.app_id = lane.app_id
                    AND r.workunit_id < lane.after_id
                ORDER BY r.workunit_id DESC
                LIMIT lane.page
            )
        ) AS along
    ) AS cut
) AS page
LEFT JOIN LATERAL (
    SELECT *
    FROM workunit
    WHERE
        workunit.id = page.workunit_id
        AND workunit.error_mask = 0
        AND workunit.canonical_result_id IS NULL
        AND workunit.cancel_requested_at IS NULL
        AND workunit.release_state = {{ReleaseState.RELEASED}}
        AND workunit.pending_dependency_count = 0
        AND (workunit.start_after IS NULL OR workunit.start_after <= %(now)s::timestamptz)
        AND (workunit.start_before IS NULL OR workunit.start_before > %(now)s::timestamptz)
        AND (workunit.end_before IS NULL OR workunit.end_before > %(now)s::timestamptz)
    OFFSET 0
) AS w ON TRUE
LEFT JOIN LATERAL (
    SELECT
        array_agg(o.host_id) FILTER (
            WHERE
                o.server_state = {{ServerState.IN_PROGRESS}}
                OR (page.one_result_per = 'host' AND NOT o.may_come_again)
        ) AS by_hosts,
        array_agg(o.account_id) FILTER (
            WHERE page.one_result_per = 'account' AND NOT o.may_come_again
        ) AS by_accounts
    FROM (
        SELECT
            sibling.host_id,
            sibling.account_id,
            sibling.server_state,
            (
                sibling.server_state = {{ServerState.OVER}}
                AND sibling.outcome <> {{Outcome.SUCCESS}}
                AND coalesce(sibling.received_at, sibling.report_deadline) + page.retry_after
                <= %(now)s::timestamptz
            ) AS may_come_again
        FROM result AS sibling
        WHERE
            sibling.workunit_id = page.workunit_id
            AND (
                sibling.host_id = ANY(%(host_ids)s::bigint[])
                OR sibling.account_id = ANY(%(account_ids)s::bigint[])
            )
    ) AS o
) AS taken ON w.id IS NOT NULL
WHERE
    w.id IS NOT NULL
    OR page.position = 1
    OR page.position = page.page_rows
