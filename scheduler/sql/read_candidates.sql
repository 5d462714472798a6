-- Reads the next page of unsent results of each lane, best first, without locks: a lane is an app's
-- work for everybody, or that for one host, account or team alone; beside the lanes, work whose
-- input files the host has already.  Of equal priority the oldest workunit comes first, whichever of
-- its results it is: a replica or a retry does not wait behind all that was submitted later.
-- A page is cut along the index before anything is looked up, so that its cost is that of its rows,
-- whatever the planner believes of the filters behind it.  Only what may be sent to this account and
-- host comes back, and always the page's last row, so that the reader can turn the page.  The claim
-- checks all of it again under locks.  The literal 2 (UNSENT) is the partial index read_candidates'.
SELECT
    page.lane,
    page.result_id,
    page.workunit_id,
    page.app_id,
    page.priority,
    page.position,
    page.target_kind,
    (page.lane < 0) AS is_near,
    coalesce(page.reliable_until > %(now)s::timestamptz, FALSE) AS reserved,
    w.rsc_fpops_est,
    w.rsc_memory_bound,
    w.rsc_disk_bound,
    w.rsc_bandwidth_bound,
    w.delay_bound,
    w.hr_class,
    w.app_version_id,
    w.app_version_num,
    w.target_nresults,
    w.size_class,
    w.keywords,
    (w.id IS NOT NULL AND page.taken_id IS NULL) AS sendable
FROM (
    SELECT
        cut.*,
        row_number() OVER (
            PARTITION BY cut.lane
            ORDER BY cut.priority DESC, cut.workunit_id ASC, cut.result_id ASC
        ) AS position,
        count(*) OVER (PARTITION BY cut.lane) AS page_rows,
        (
            SELECT o.id
            FROM result AS o
            WHERE
                o.workunit_id = cut.workunit_id
                AND (
                    (o.host_id = %(host_id)s::bigint AND o.server_state = 4)
                    OR (
                        (
                            (
                                cut.one_result_per = 'account'
                                AND o.account_id = %(account_id)s::bigint
                            )
                            OR (
                                cut.one_result_per = 'host'
                                AND o.host_id = %(host_id)s::bigint
                            )
                        )
                        AND NOT (
                            o.server_state = 5
                            AND o.outcome <> 1
                            AND coalesce(o.received_at, o.report_deadline) + cut.retry_after
                            <= %(now)s::timestamptz
                        )
                    )
                )
            LIMIT 1
        ) AS taken_id
    FROM (
        SELECT
            lane.lane,
            along.*,
            lane.one_result_per,
            lane.retry_after
        FROM unnest(
            %(lanes)s::integer[],
            %(app_ids)s::bigint[],
            %(target_kinds)s::smallint[],
            %(target_ids)s::bigint[],
            %(one_result_per)s::text[],
            %(retry_after)s::interval[],
            %(after_priority)s::integer[],
            %(after_id)s::bigint[],
            %(pages)s::integer[]
        ) AS lane (
            lane, app_id, target_kind, target_id, one_result_per, retry_after, after_priority,
            after_id, page
        )
        CROSS JOIN LATERAL (
            SELECT
                r.id AS result_id,
                r.workunit_id,
                r.app_id,
                r.priority,
                r.target_kind,
                r.reliable_until
            FROM result AS r
            WHERE
                r.app_id = lane.app_id
                AND r.target_kind = lane.target_kind
                AND r.target_id = lane.target_id
                AND r.server_state = 2
                AND r.priority <= lane.after_priority
                AND (r.priority < lane.after_priority OR r.workunit_id > lane.after_id)
            ORDER BY r.priority DESC, r.workunit_id ASC
            LIMIT lane.page
        ) AS along
        UNION ALL
        SELECT
            -1,
            r.id,
            r.workunit_id,
            r.app_id,
            r.priority,
            r.target_kind,
            r.reliable_until,
            a.one_result_per,
            a.retry_same_account_after
        FROM result AS r
        INNER JOIN app AS a ON r.app_id = a.id
        WHERE
            r.workunit_id = ANY(%(near_workunit_ids)s::bigint[])
            AND r.server_state = 2
            AND r.target_kind = 0
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
        AND workunit.release_state = 3
        AND workunit.pending_dependency_count = 0
        AND (workunit.start_after IS NULL OR workunit.start_after <= %(now)s::timestamptz)
        AND (workunit.start_before IS NULL OR workunit.start_before > %(now)s::timestamptz)
        AND (workunit.end_before IS NULL OR workunit.end_before > %(now)s::timestamptz)
    OFFSET 0
) AS w ON TRUE
WHERE
    (w.id IS NOT NULL AND page.taken_id IS NULL)
    OR page.position = page.page_rows
