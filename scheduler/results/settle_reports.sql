-- Settles accepted reports in one statement: moves results from IN_PROGRESS or NO_REPLY to OVER,
-- inserts their uploaded outputs and ledger entries, and wakes the transitioner for
-- their workunits.  Results in other states are not changed.
WITH report AS (
    SELECT *
    FROM unnest(
        %(result_ids)s::bigint[],
        %(outcomes)s::smallint[],
        %(client_states)s::smallint[],
        %(exit_statuses)s::integer[],
        %(cpu_times)s::double precision[],
        %(elapsed_times)s::double precision[],
        %(peak_working_sets)s::double precision[],
        %(peak_swaps)s::double precision[],
        %(peak_disks)s::double precision[],
        %(stderrs)s::text[],
        %(app_statuses)s::integer[],
        %(stdouts)s::text[]
    ) AS u (
        result_id, outcome, client_state, exit_status, cpu_time, elapsed_time,
        peak_working_set, peak_swap, peak_disk, stderr, app_status, stdout
    )
),

settled AS (
    UPDATE result AS r
    SET
        server_state = {{ServerState.OVER}},
        outcome = report.outcome,
        validate_state = CASE
            WHEN report.outcome = {{Outcome.CLIENT_ERROR}} THEN {{ValidateState.INVALID}}
            ELSE r.validate_state
        END,
        client_state = report.client_state,
        exit_status = report.exit_status,
        cpu_time = report.cpu_time,
        elapsed_time = report.elapsed_time,
        peak_working_set_bytes = report.peak_working_set,
        peak_swap_bytes = report.peak_swap,
        peak_disk_bytes = report.peak_disk,
        stderr = report.stderr,
        app_status = report.app_status,
        stdout = report.stdout,
        received_at = %(now)s::timestamptz,
        -- Files that arrived after the result's files were deleted must be deleted, too (seed B28).
        file_delete_state = CASE
            WHEN r.file_delete_state = {{FileDeleteState.DONE}} THEN {{FileDeleteState.READY}}
            ELSE r.file_delete_state
        END
    FROM report
    INNER JOIN result AS was ON report.result_id = was.id
    WHERE
        r.id = was.id
        AND (
            (r.server_state = {{ServerState.IN_PROGRESS}} AND r.outcome = {{Outcome.INIT}})
            OR (r.server_state = {{ServerState.OVER}} AND r.outcome = {{Outcome.NO_REPLY}})
        )
    RETURNING
        r.id,
        r.workunit_id,
        was.server_state * 10 + was.outcome AS was_state,
        {{ServerState.OVER}} * 10 + r.outcome AS state,
        was.validate_state AS was_validate_state,
        r.validate_state,
        was.file_delete_state AS was_file_delete_state,
        r.file_delete_state,
        r.target_kind
),

arrived AS (
    INSERT INTO result_file (result_id, position, name, nbytes, md5, sha256)
    SELECT
        f.result_id,
        f.position,
        f.name,
        f.nbytes,
        f.md5,
        f.sha256
    FROM unnest(
        %(file_result_ids)s::bigint[],
        %(file_positions)s::smallint[],
        %(file_names)s::text[],
        %(file_sizes)s::bigint[],
        %(file_md5s)s::text[],
        %(file_sha256s)s::text[]
    ) AS f (result_id, position, name, nbytes, md5, sha256)
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM settled
),

moves AS (
    SELECT
        id AS result_id,
        workunit_id,
        {{Axis.RESULT}} AS axis,
        was_state AS source,
        state AS target,
        CASE
            WHEN was_state = {{ResultState.IN_PROGRESS}}
                THEN CASE
                    WHEN state = {{ResultState.SUCCESS}} THEN {{Because.REPORTED}}
                    ELSE {{Because.REPORTED_ERROR}}
                END
            WHEN state = {{ResultState.SUCCESS}} THEN {{Because.REPORTED_LATE}}
            ELSE {{Because.REPORTED_ERROR_LATE}}
        END AS because
    FROM settled
    UNION ALL
    SELECT
        id,
        workunit_id,
        {{Axis.VALIDATION}},
        was_validate_state,
        validate_state,
        CASE
            WHEN was_state = {{ResultState.IN_PROGRESS}} THEN {{Because.REPORTED_ERROR}}
            ELSE {{Because.REPORTED_ERROR_LATE}}
        END
    FROM settled
    WHERE was_validate_state <> validate_state
    UNION ALL
    SELECT
        id,
        workunit_id,
        {{Axis.RESULT_FILES}},
        was_file_delete_state,
        file_delete_state,
        {{Because.UPLOADED_LATE}}
    FROM settled
    WHERE was_file_delete_state <> file_delete_state
),

ledger AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        workunit_id,
        result_id,
        axis,
        source,
        target,
        because,
        {{Actor.SCHEDULER}}
    FROM moves
    WHERE %(ledger)s::boolean
)

SELECT
    id AS result_id,
    state,
    target_kind
FROM settled
