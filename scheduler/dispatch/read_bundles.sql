-- Reads the next page of task lists that can be claimed, per app, with the unsent results of their
-- members.  `by_hosts` and `by_accounts` are the requesting hosts and accounts that must not receive
-- the result, as in read_candidates.  Nothing is locked: the claim repeats all checks.
SELECT
    page.id AS bundle_id,
    page.priority AS bundle_priority,
    page.created_at AS bundle_created_at,
    (
        w.error_mask = 0
        AND w.canonical_result_id IS NULL
        AND w.cancel_requested_at IS NULL
        AND w.release_state = {{ReleaseState.RELEASED}}
        AND w.pending_dependency_count = 0
        AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
        AND (w.start_before IS NULL OR w.start_before > %(now)s::timestamptz)
        AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
    ) AS is_sendable,
    taken.by_hosts,
    taken.by_accounts,
    extract(EPOCH FROM w.expected_duration)::double precision AS expected_seconds,
    -- The columns of `dispatch.facts.Candidate` follow.
    r.id AS result_id,
    r.workunit_id,
    r.priority,
    r.app_id,
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
    FALSE AS reserved,
    r.target_kind,
    w.size_class,
    w.keywords,
    FALSE AS is_near,
    0 AS queue_id
FROM unnest(%(app_ids)s::bigint[]) AS wanted (app_id)
CROSS JOIN LATERAL (
    SELECT
        b.id,
        b.priority,
        b.created_at
    FROM bundle AS b
    WHERE
        b.app_id = wanted.app_id
        AND b.is_ready
    ORDER BY b.priority DESC, b.created_at ASC, b.id ASC
    OFFSET %(offset)s::integer
    LIMIT %(page)s::integer
) AS page
INNER JOIN bundle_member AS member ON page.id = member.bundle_id
INNER JOIN workunit AS w ON member.workunit_id = w.id AND page.id = w.bundle_id
INNER JOIN result AS r
    ON
        w.id = r.workunit_id
        AND r.server_state = {{ServerState.UNSENT}}
        AND r.target_kind = {{Target.BUNDLE}}
        AND r.target_id = page.id
LEFT JOIN LATERAL (
    SELECT
        array_agg(o.host_id) FILTER (
            WHERE
                o.server_state = {{ServerState.IN_PROGRESS}}
                OR (app.one_result_per = 'host' AND NOT o.may_come_again)
        ) AS by_hosts,
        array_agg(o.account_id) FILTER (
            WHERE app.one_result_per = 'account' AND NOT o.may_come_again
        ) AS by_accounts
    FROM app
    INNER JOIN LATERAL (
        SELECT
            sibling.host_id,
            sibling.account_id,
            sibling.server_state,
            (
                sibling.server_state = {{ServerState.OVER}}
                AND sibling.outcome <> {{Outcome.SUCCESS}}
                AND coalesce(sibling.received_at, sibling.report_deadline)
                + app.retry_same_account_after <= %(now)s::timestamptz
            ) AS may_come_again
        FROM result AS sibling
        WHERE
            sibling.workunit_id = w.id
            AND (
                sibling.host_id = ANY(%(host_ids)s::bigint[])
                OR sibling.account_id = ANY(%(account_ids)s::bigint[])
            )
    ) AS o ON TRUE
    WHERE app.id = r.app_id
) AS taken ON TRUE
ORDER BY page.priority DESC, page.created_at ASC, page.id ASC, r.workunit_id ASC
