-- Submits failed workunits again under new names, with their inputs and first ledger entries.
WITH again AS (
    SELECT *
    FROM unnest(
        %(ids)s::bigint[], %(new_ids)s::bigint[], %(priorities)s::integer[]
    ) AS pair (id, new_id, priority)
),

inserted AS (
    INSERT INTO workunit (
        id, name, app_id, batch_id, queue_id, command_line, outputs, output_bytes, keywords, meta,
        rsc_fpops_est, rsc_fpops_bound, rsc_memory_bound, rsc_disk_bound, rsc_bandwidth_bound,
        requested_cpus, requested_gpus, delay_bound, expected_duration, max_termination_time, bundle_id,
        min_quorum, target_nresults, max_error_results, max_total_results, max_success_results,
        max_timeouts, priority, size_class, app_version_num, start_after, start_before, end_before,
        release_state,
        pending_dependency_count, waits_for_batch, has_parents, has_children, is_group,
        target_host_id, target_account_id, target_team_id, broadcast, outputs_kept, created_at
    )
    SELECT
        again.new_id,
        -- A name has at most 200 characters; the id makes shortened names unique.
        CASE
            WHEN length(w.name) <= 198 THEN w.name || '.2'
            ELSE left(w.name, 199 - length(again.new_id::text)) || '.' || again.new_id::text
        END,
        w.app_id, w.batch_id, w.queue_id, w.command_line, w.outputs,
        w.output_bytes, w.keywords, w.meta, w.rsc_fpops_est, w.rsc_fpops_bound, w.rsc_memory_bound,
        w.rsc_disk_bound, w.rsc_bandwidth_bound, w.requested_cpus, w.requested_gpus, w.delay_bound,
        w.expected_duration,
        w.max_termination_time,
        -- A retry of a member of a task list waits for another list.
        CASE WHEN w.bundle_id IS NOT NULL THEN 0 END,
        w.min_quorum, w.target_nresults,
        w.max_error_results, w.max_total_results, w.max_success_results, w.max_timeouts,
        coalesce(again.priority, w.priority), w.size_class, w.app_version_num,
        w.start_after,
        CASE WHEN w.start_before > %(now)s::timestamptz THEN w.start_before END,
        CASE WHEN w.end_before > %(now)s::timestamptz THEN w.end_before END,
        CASE
            WHEN %(waits)s::boolean OR w.has_parents THEN %(inactive)s::smallint
            ELSE %(released)s::smallint
        END,
        %(waits)s::boolean::integer + w.has_parents::integer,
        %(waits)s::boolean, w.has_parents, w.has_children, w.is_group,
        w.target_host_id, w.target_account_id, w.target_team_id, w.broadcast,
        %(outputs_kept)s::boolean, %(now)s::timestamptz
    FROM again
    INNER JOIN workunit AS w ON again.id = w.id
    ORDER BY again.new_id
    ON CONFLICT (name) DO NOTHING
    RETURNING id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM inserted
),

marked AS (
    UPDATE workunit
    SET retried_as = again.new_id
    FROM again
    INNER JOIN inserted ON again.new_id = inserted.id
    WHERE workunit.id = again.id
),

inputs AS (
    INSERT INTO workunit_file (workunit_id, position, file_id, open_name, copy_file, sticky)
    SELECT
        again.new_id,
        input.position,
        input.file_id,
        input.open_name,
        input.copy_file,
        input.sticky
    FROM again
    INNER JOIN inserted ON again.new_id = inserted.id
    INNER JOIN workunit_file AS input ON again.id = input.workunit_id
),

ledger AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        inserted.id,
        %(axis)s::smallint,
        %(nothing)s::smallint,
        %(open)s::smallint,
        %(submitted)s::smallint,
        %(submitter)s::smallint
    FROM inserted
    WHERE %(ledger)s::boolean
)

SELECT id FROM inserted
