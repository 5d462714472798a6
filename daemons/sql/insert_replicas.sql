-- Make new, unsent results of locked workunits.
WITH born AS (
    INSERT INTO result (
        workunit_id, app_id, name, attempt, priority, server_state, outcome, client_state,
        validate_state, file_delete_state, flops_estimate, created_at, resent_count, exit_status,
        cpu_time, elapsed_time, peak_working_set_bytes, peak_swap_bytes, peak_disk_bytes, stderr,
        granted_credit
    )
    SELECT
        replica.workunit_id,
        replica.app_id,
        replica.name,
        replica.attempt,
        replica.priority,
        %(unsent)s::smallint / 10,
        %(unsent)s::smallint %% 10,
        0,
        0,
        0,
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
        %(app_ids)s::bigint[],
        %(names)s::text[],
        %(attempts)s::integer[],
        %(priorities)s::integer[]
    ) AS replica (workunit_id, app_id, name, attempt, priority)
    RETURNING id, workunit_id
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        born.workunit_id,
        born.id,
        %(axis)s::smallint,
        %(nothing)s::smallint,
        %(unsent)s::smallint,
        %(because)s::smallint,
        %(by)s::smallint
    FROM born
    WHERE %(ledger)s::boolean
)

SELECT id FROM born
