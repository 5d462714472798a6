-- Reads a result of a queue with the columns of `dispatch.facts.Candidate`, in any state.  The caller
-- checks that the queue is trusted.
SELECT
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
    queue.id AS queue_id,
    -- The state of the result and its workunit.
    r.name,
    r.host_id,
    r.report_deadline,
    r.server_state,
    (w.cancel_requested_at IS NOT NULL OR w.error_mask <> 0) AS cancelled,
    (
        SELECT
            coalesce(
                bool_or(
                    s.server_state = {{ServerState.IN_PROGRESS}}
                    OR a.one_result_per = 'host'
                    OR a.one_result_per = 'account'
                ),
                FALSE
            )
        FROM result AS s
        WHERE
            s.workunit_id = r.workunit_id
            AND s.id <> r.id
            AND (
                s.host_id = %(host_id)s::bigint
                OR (a.one_result_per = 'account' AND s.account_id = %(account_id)s::bigint)
            )
            AND (
                s.server_state = {{ServerState.IN_PROGRESS}}
                OR s.outcome = {{Outcome.SUCCESS}}
                OR coalesce(s.received_at, s.report_deadline) + a.retry_same_account_after
                > %(now)s::timestamptz
            )
    ) AS had_before
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
INNER JOIN app AS a ON r.app_id = a.id
INNER JOIN queue ON w.queue_id = queue.id
WHERE r.id = %(result_id)s::bigint
