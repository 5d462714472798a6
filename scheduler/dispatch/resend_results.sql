-- Resends lost results to their host: sets new deadlines; the results stay IN_PROGRESS.
WITH resent AS (
    UPDATE result AS r
    SET
        sent_at = %(now)s::timestamptz,
        report_deadline = chosen.report_deadline,
        credit_deadline = chosen.report_deadline + coalesce(a.credit_window, w.delay_bound),
        resent_count = r.resent_count + 1
    FROM unnest(%(result_ids)s::bigint[], %(deadlines)s::timestamptz[])
        AS chosen (result_id, report_deadline),
        workunit AS w,
        app AS a
    WHERE
        r.id = chosen.result_id
        AND w.id = r.workunit_id
        AND a.id = w.app_id
        -- The state IN_PROGRESS.  No partial index matches this expression, so that the row is
        -- found by its id.
        AND r.server_state * 10 + r.outcome = {{ResultState.IN_PROGRESS}}
        AND r.host_id = %(host_id)s::bigint
    RETURNING
        r.id,
        r.workunit_id,
        r.name,
        r.app_version_id,
        r.flops_estimate,
        r.report_deadline,
        CASE WHEN r.target_kind = {{Target.BUNDLE}} THEN r.target_id ELSE 0 END AS bundle_id,
        coalesce(w.max_termination_time, a.max_termination_time) AS max_termination_time
),

ledger AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        resent.workunit_id,
        resent.id,
        {{Axis.RESULT}},
        {{ResultState.IN_PROGRESS}},
        {{ResultState.IN_PROGRESS}},
        {{Because.RESENT}},
        {{Actor.SCHEDULER}}
    FROM resent
    WHERE %(ledger)s::boolean
)

SELECT
    resent.id AS result_id,
    resent.name AS result_name,
    resent.workunit_id,
    w.name AS workunit_name,
    w.app_id,
    resent.app_version_id,
    resent.flops_estimate AS flops,
    resent.report_deadline,
    w.command_line,
    w.outputs,
    w.rsc_fpops_est,
    w.rsc_fpops_bound,
    w.rsc_memory_bound,
    w.rsc_disk_bound,
    resent.bundle_id,
    resent.max_termination_time,
    w.requested_cpus,
    w.requested_gpus
FROM resent
INNER JOIN workunit AS w ON resent.workunit_id = w.id
ORDER BY resent.id
