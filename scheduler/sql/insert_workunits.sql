-- Workunits with their inputs and the first entries of their ledger; names taken are left out.
WITH new AS (
    SELECT
        workunit.id,
        workunit.name,
        workunit.command_line,
        coalesce(workunit.meta, '{}') AS meta,
        coalesce(workunit.fair_priority, kind.priority) AS its_priority,
        kind.*
    FROM jsonb_to_recordset(%(kinds)s::jsonb) AS kind (
        workunits jsonb,
        outputs jsonb,
        keywords text,
        rsc_fpops_est double precision,
        rsc_fpops_bound double precision,
        rsc_memory_bound double precision,
        rsc_disk_bound double precision,
        rsc_bandwidth_bound double precision,
        delay_seconds double precision,
        min_quorum integer,
        target_nresults integer,
        max_error_results integer,
        max_total_results integer,
        max_success_results integer,
        max_timeouts integer,
        priority integer,
        size_class smallint,
        app_version_num integer,
        target_host bigint,
        target_account bigint,
        target_team bigint,
        broadcast boolean,
        start_after timestamptz,
        start_before timestamptz,
        end_before timestamptz,
        release_state smallint,
        pending_dependency_count integer
    )
    CROSS JOIN LATERAL jsonb_to_recordset(kind.workunits) AS workunit (
        id bigint,
        name text,
        command_line text,
        meta jsonb,
        fair_priority integer
    )
),

born AS (
    INSERT INTO workunit (
        id, name, app_id, batch_id, command_line, outputs, keywords, meta,
        rsc_fpops_est, rsc_fpops_bound, rsc_memory_bound, rsc_disk_bound, rsc_bandwidth_bound,
        delay_bound, min_quorum, target_nresults, max_error_results, max_total_results,
        max_success_results, max_timeouts, priority, size_class, hr_class, app_version_num,
        start_after, start_before, end_before, release_state, pending_dependency_count,
        target_host_id, target_account_id, target_team_id, broadcast,
        cancel_reason, error_mask, need_validate, canonical_credit, assimilate_state,
        file_delete_state, transition_at, lease_token, created_at
    )
    SELECT
        id, name, %(app_id)s::bigint, %(batch_id)s::bigint, command_line, outputs, keywords, meta,
        rsc_fpops_est, rsc_fpops_bound, rsc_memory_bound, rsc_disk_bound, rsc_bandwidth_bound,
        make_interval(secs => delay_seconds), min_quorum, target_nresults, max_error_results,
        max_total_results, max_success_results, max_timeouts, its_priority, size_class, 0,
        app_version_num, start_after, start_before, end_before, release_state,
        pending_dependency_count, target_host, target_account, target_team, broadcast, '', 0, FALSE, 0, 0, 0, %(now)s::timestamptz, 0,
        %(now)s::timestamptz
    FROM new
    ORDER BY id
    ON CONFLICT (name) DO NOTHING
    RETURNING id
),

births AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        born.id,
        %(axis)s::smallint,
        %(nothing)s::smallint,
        %(open)s::smallint,
        %(submitted)s::smallint,
        %(submitter)s::smallint
    FROM born
    WHERE %(ledger)s::boolean
),

inputs AS (
    INSERT INTO workunit_file (workunit_id, position, file_id, open_name, copy_file, sticky)
    SELECT
        sharing.workunit_id,
        input.p,
        input.f,
        input.o,
        input.c,
        input.s
    -- Each reference once, with all the workunits that share it, written as an array.
    FROM jsonb_to_recordset(%(inputs)s::jsonb) AS input (
        p smallint, f bigint, o text, c boolean, s boolean, w text
    )
    CROSS JOIN LATERAL unnest(input.w::bigint[]) AS sharing (workunit_id)
)

SELECT id FROM born
