-- Insert new unsent results of locked workunits, with their targets and the priority of retries.
WITH inserted AS (
    INSERT INTO result (
        workunit_id, app_id, name, attempt, priority, target_kind, target_id, reliable_until,
        server_state, outcome, client_state, validate_state, file_delete_state, flops_estimate,
        created_at, resent_count, exit_status, cpu_time, elapsed_time, peak_working_set_bytes,
        peak_swap_bytes, peak_disk_bytes, stderr, granted_credit
    )
    SELECT
        w.id,
        w.app_id,
        -- The same format as in results.facts.result_name.
        w.name || '_' || replica.attempt,
        replica.attempt,
        w.priority + CASE WHEN urgent.is_so THEN app.retry_priority ELSE 0 END,
        CASE
            WHEN w.bundle_id IS NOT NULL THEN {{Target.BUNDLE}}
            WHEN w.target_host_id IS NOT NULL THEN {{Target.HOST}}
            WHEN w.target_account_id IS NOT NULL THEN {{Target.ACCOUNT}}
            WHEN w.target_team_id IS NOT NULL THEN {{Target.TEAM}}
            WHEN w.queue_id IS NOT NULL THEN {{Target.QUEUE}}
            ELSE {{Target.EVERYBODY}}
        END,
        CASE
            WHEN w.bundle_id IS NULL
                THEN
                    coalesce(w.target_host_id, w.target_account_id, w.target_team_id, w.queue_id, 0)
            -- A member that its host did not report is sent again with its list; a member that
            -- failed waits for another list.
            WHEN (
                SELECT last_one.outcome
                FROM result AS last_one
                WHERE
                    last_one.workunit_id = w.id
                    AND last_one.target_kind = {{Target.BUNDLE}}
                    AND last_one.target_id = w.bundle_id
                ORDER BY last_one.attempt DESC
                LIMIT 1
            ) NOT IN ({{Outcome.NO_REPLY}}, {{Outcome.CLIENT_DETACHED}})
                THEN 0
            ELSE w.bundle_id
        END,
        CASE
            WHEN urgent.is_so AND app.reliable_max_turnaround IS NOT NULL
                THEN %(now)s::timestamptz + app.reliable_wait
        END,
        %(unsent)s::smallint / 10,
        %(unsent)s::smallint %% 10,
        {{ClientState.NEW}},
        {{ValidateState.INIT}},
        {{FileDeleteState.INIT}},
        0,
        %(now)s::timestamptz,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        '',
        0
    FROM unnest(
        %(workunit_ids)s::bigint[],
        %(attempts)s::integer[],
        %(retries)s::boolean[]
    ) WITH ORDINALITY AS replica (workunit_id, attempt, is_retry, place)
    -- One look-up per row: while a new table has no statistics, a join reads the whole table.
    CROSS JOIN LATERAL (SELECT * FROM workunit WHERE workunit.id = replica.workunit_id OFFSET 0) AS w
    INNER JOIN app ON w.app_id = app.id
    LEFT JOIN batch ON w.batch_id = batch.id
    CROSS JOIN LATERAL (SELECT replica.is_retry OR coalesce(batch.accelerate, FALSE)) AS urgent (is_so)
    -- Ids ascend in the order of attempts with every plan of the joins.
    ORDER BY replica.place
    RETURNING id, workunit_id
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        inserted.workunit_id,
        inserted.id,
        %(axis)s::smallint,
        %(nothing)s::smallint,
        %(unsent)s::smallint,
        %(because)s::smallint,
        %(by)s::smallint
    FROM inserted
    WHERE %(ledger)s::boolean
)

SELECT count(*) FROM inserted
