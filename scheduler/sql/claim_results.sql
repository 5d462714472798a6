-- Sends one unsent result of each locked workunit to a host: UNSENT to IN_PROGRESS, with the ledger.
-- Runs in a statement of its own after the workunits are locked: only a snapshot taken then sees
-- every result of theirs that another host was given meanwhile (docs/decisions/0002).
WITH chosen AS (
    SELECT *
    FROM unnest(
        %(workunit_ids)s::bigint[],
        %(app_version_ids)s::bigint[],
        %(flops)s::double precision[],
        %(delays)s::interval[]
    ) AS u (workunit_id, app_version_id, flops, delay)
),

free AS (
    SELECT DISTINCT ON (r.workunit_id)
        r.id,
        r.workunit_id,
        chosen.app_version_id,
        chosen.flops,
        chosen.delay
    FROM chosen
    INNER JOIN result AS r ON chosen.workunit_id = r.workunit_id
    INNER JOIN app AS a ON r.app_id = a.id
    WHERE
        r.server_state = 2
        -- What is for one host, account or team alone is for nobody else.
        AND (
            r.target_kind = 0
            OR (r.target_kind = 1 AND r.target_id = %(host_id)s::bigint)
            OR (r.target_kind = 2 AND r.target_id = %(account_id)s::bigint)
            OR (r.target_kind = 3 AND r.target_id = %(team_id)s::bigint)
        )
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
                                a.one_result_per = 'account'
                                AND o.account_id = %(account_id)s::bigint
                            )
                            OR (
                                a.one_result_per = 'host'
                                AND o.host_id = %(host_id)s::bigint
                            )
                        )
                        AND NOT (
                            o.server_state = 5
                            AND o.outcome <> 1
                            AND coalesce(o.received_at, o.report_deadline)
                            + a.retry_same_account_after <= %(now)s::timestamptz
                        )
                    )
                )
        )
    ORDER BY r.workunit_id, r.id
),

sent AS (
    UPDATE result AS r
    SET
        server_state = 4,
        host_id = %(host_id)s::bigint,
        account_id = %(account_id)s::bigint,
        app_version_id = free.app_version_id,
        flops_estimate = free.flops,
        sent_at = %(now)s::timestamptz,
        report_deadline = %(now)s::timestamptz + free.delay,
        credit_deadline = %(now)s::timestamptz + free.delay
        + coalesce(a.credit_window, w.delay_bound)
    FROM free
    INNER JOIN workunit AS w ON free.workunit_id = w.id
    INNER JOIN app AS a ON w.app_id = a.id
    WHERE r.id = free.id AND r.server_state = 2
    RETURNING r.id, r.workunit_id, r.name, r.app_version_id, r.flops_estimate, r.report_deadline
),

ledger AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        sent.workunit_id,
        sent.id,
        1,
        20,
        40,
        3,
        2
    FROM sent
    WHERE %(ledger)s::boolean
)

SELECT
    sent.id AS result_id,
    sent.name AS result_name,
    sent.workunit_id,
    w.name AS workunit_name,
    w.app_id,
    sent.app_version_id,
    sent.flops_estimate AS flops,
    sent.report_deadline,
    w.command_line,
    w.outputs,
    w.rsc_fpops_est,
    w.rsc_fpops_bound,
    w.rsc_memory_bound,
    w.rsc_disk_bound
FROM sent
INNER JOIN workunit AS w ON sent.workunit_id = w.id
ORDER BY sent.id
