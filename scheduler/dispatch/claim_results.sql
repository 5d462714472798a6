-- Sends unsent results of locked workunits to hosts: UNSENT to IN_PROGRESS, with ledger entries.
-- A result of a queue is sent only if the queue has not changed since it was read.
WITH chosen AS (
    SELECT *
    FROM unnest(
        %(result_ids)s::bigint[],
        %(host_ids)s::bigint[],
        %(account_ids)s::bigint[],
        %(app_version_ids)s::bigint[],
        %(flops)s::double precision[],
        %(delays)s::interval[],
        %(queue_ids)s::bigint[],
        %(queue_versions)s::bigint[]
    ) AS u (
        result_id, host_id, account_id, app_version_id, flops, delay, queue_id, queue_version
    )
),

sent AS (
    UPDATE result AS r
    SET
        server_state = {{ServerState.IN_PROGRESS}},
        host_id = chosen.host_id,
        account_id = chosen.account_id,
        app_version_id = chosen.app_version_id,
        flops_estimate = chosen.flops,
        sent_at = %(now)s::timestamptz,
        report_deadline = %(now)s::timestamptz + chosen.delay,
        credit_deadline = %(now)s::timestamptz + chosen.delay
        + coalesce(a.credit_window, w.delay_bound)
    FROM chosen, workunit AS w, app AS a
    WHERE
        r.id = chosen.result_id
        AND w.id = r.workunit_id
        AND a.id = r.app_id
        -- The state UNSENT.  No partial index matches this expression, so that the row is found by
        -- its id.
        AND r.server_state * 10 + r.outcome = {{ResultState.UNSENT}}
        AND (
            chosen.queue_id = 0
            OR EXISTS (
                SELECT FROM queue AS q
                WHERE q.id = chosen.queue_id AND q.xmin::text::bigint = chosen.queue_version
            )
        )
    RETURNING
        r.id AS result_id,
        r.name AS result_name,
        r.workunit_id,
        w.name AS workunit_name,
        r.app_id,
        r.app_version_id,
        r.flops_estimate AS flops,
        r.report_deadline,
        w.command_line,
        w.outputs,
        w.rsc_fpops_est,
        w.rsc_fpops_bound,
        w.rsc_memory_bound,
        w.rsc_disk_bound,
        CASE WHEN r.target_kind = {{Target.BUNDLE}} THEN r.target_id ELSE 0 END AS bundle_id,
        coalesce(w.max_termination_time, a.max_termination_time) AS max_termination_time,
        w.requested_cpus,
        w.requested_gpus
),

ledger AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        sent.workunit_id,
        sent.result_id,
        {{Axis.RESULT}},
        {{ResultState.UNSENT}},
        {{ResultState.IN_PROGRESS}},
        {{Because.SENT}},
        {{Actor.SCHEDULER}}
    FROM sent
    WHERE %(ledger)s::boolean
)

SELECT * FROM sent
ORDER BY result_id
