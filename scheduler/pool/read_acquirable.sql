-- Reads the next page of unsent results that a host of the pool may acquire, without locks.  A stream
-- is an app's results of one queue, in the order of the queue: along the index read_candidates for
-- the order priority, else along results_of_queue, as in `dispatch/read_candidates`.
--
-- The statement is not `dispatch/read_candidates`, although both have the same rules of which results
-- are sendable (a test compares them): this one serves one host, so it applies the limits of the
-- request, and leaves out what the host had before, before rows are sent to the server's process;
-- that one serves all hosts of a batch of RPCs, and its plan is tuned for that.
--
-- A page is cut along the index before other tables are read, so that its cost depends only on its
-- number of rows.  Results that the host or its account had before, that do not meet the limits, or
-- that may not be sent now are left out.  The last row of each page is always returned, because the
-- caller needs its position.  The claim repeats all checks under locks.
SELECT
    page.stream,
    page.position,
    (w.id IS NOT NULL) AS sendable,
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
    page.queue_id
FROM (
    SELECT
        stream.stream,
        along.*,
        stream.one_result_per,
        stream.retry_after,
        row_number() OVER (
            PARTITION BY stream.stream
            ORDER BY along.priority DESC, along.rank ASC, along.result_id ASC
        ) AS position,
        count(*) OVER (PARTITION BY stream.stream) AS page_rows
    FROM unnest(
        %(streams)s::integer[],
        %(app_ids)s::bigint[],
        %(queue_ids)s::bigint[],
        %(orders)s::text[],
        %(one_result_per)s::text[],
        %(retry_after)s::interval[],
        %(after_priority)s::integer[],
        %(after_id)s::bigint[]
    ) AS stream (
        stream, app_id, queue_id, sorted_by, one_result_per, retry_after, after_priority, after_id
    )
    CROSS JOIN LATERAL (
        (
            SELECT
                r.id AS result_id,
                r.workunit_id,
                r.app_id,
                r.priority,
                r.target_kind,
                r.target_id AS queue_id,
                r.reliable_until,
                r.workunit_id AS rank
            FROM result AS r
            WHERE
                stream.sorted_by = 'priority'
                AND r.app_id = stream.app_id
                AND r.target_kind = {{Target.QUEUE}}
                AND r.target_id = stream.queue_id
                AND r.server_state = {{ServerState.UNSENT}}
                AND (r.priority # -1, r.workunit_id) > (stream.after_priority # -1, stream.after_id)
            ORDER BY r.priority # -1 ASC, r.workunit_id ASC
            LIMIT %(page)s::integer
        )
        UNION ALL
        (
            SELECT
                r.id AS result_id,
                r.workunit_id,
                r.app_id,
                0 AS priority,
                r.target_kind,
                r.target_id AS queue_id,
                r.reliable_until,
                r.workunit_id AS rank
            FROM result AS r
            WHERE
                stream.sorted_by = 'fifo'
                AND r.target_kind = {{Target.QUEUE}}
                AND r.target_id = stream.queue_id
                AND r.server_state = {{ServerState.UNSENT}}
                AND r.app_id = stream.app_id
                AND r.workunit_id > stream.after_id
            ORDER BY r.workunit_id ASC
            LIMIT %(page)s::integer
        )
        UNION ALL
        (
            SELECT
                r.id AS result_id,
                r.workunit_id,
                r.app_id,
                0 AS priority,
                r.target_kind,
                r.target_id AS queue_id,
                r.reliable_until,
                -r.workunit_id AS rank
            FROM result AS r
            WHERE
                stream.sorted_by = 'lifo'
                AND r.target_kind = {{Target.QUEUE}}
                AND r.target_id = stream.queue_id
                AND r.server_state = {{ServerState.UNSENT}}
                AND r.app_id = stream.app_id
                AND r.workunit_id < stream.after_id
            ORDER BY r.workunit_id DESC
            LIMIT %(page)s::integer
        )
    ) AS along
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
        AND workunit.rsc_memory_bound <= %(max_memory_bytes)s::double precision
        AND workunit.rsc_disk_bound <= %(max_disk_bytes)s::double precision
        AND (
            %(max_fpops)s::double precision IS NULL
            OR workunit.rsc_fpops_est <= %(max_fpops)s::double precision
        )
        AND (
            %(max_cpus)s::double precision IS NULL
            OR workunit.requested_cpus <= %(max_cpus)s::double precision
        )
        AND (
            %(max_gpus)s::double precision IS NULL
            OR workunit.requested_gpus <= %(max_gpus)s::double precision
        )
        AND (
            %(batch)s::text IS NULL
            OR workunit.batch_id IN (SELECT b.id FROM batch AS b WHERE b.name = %(batch)s::text)
        )
        AND NOT EXISTS (
            SELECT 1
            FROM result AS s
            WHERE
                s.workunit_id = page.workunit_id
                AND (
                    (
                        s.host_id = %(host_id)s::bigint
                        AND (
                            s.server_state = {{ServerState.IN_PROGRESS}}
                            OR page.one_result_per = 'host'
                        )
                    )
                    OR (
                        s.account_id = %(account_id)s::bigint
                        AND page.one_result_per = 'account'
                    )
                )
                AND NOT (
                    s.server_state = {{ServerState.OVER}}
                    AND s.outcome <> {{Outcome.SUCCESS}}
                    AND coalesce(s.received_at, s.report_deadline) + page.retry_after
                    <= %(now)s::timestamptz
                )
        )
    OFFSET 0
) AS w ON TRUE
WHERE
    w.id IS NOT NULL
    OR page.position = page.page_rows
