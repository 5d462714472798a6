-- Move results of locked workunits, each from the state that was judged, on up to three axes, and
-- write down what they are paid.
WITH move AS (
    SELECT *
    FROM unnest(
        %(workunit_ids)s::bigint[],
        %(result_ids)s::bigint[],
        %(axes)s::smallint[],
        %(sources)s::smallint[],
        %(targets)s::smallint[],
        %(becauses)s::smallint[],
        %(amounts)s::numeric[]
    ) AS m (workunit_id, result_id, axis, source, target, because, amount)
),

step AS (
    SELECT
        result_id,
        max(source) FILTER (WHERE axis = %(axis_result)s::smallint) AS was,
        max(target) FILTER (WHERE axis = %(axis_result)s::smallint) AS becomes,
        max(source) FILTER (WHERE axis = %(axis_validation)s::smallint) AS was_validated,
        max(target) FILTER (WHERE axis = %(axis_validation)s::smallint) AS validated,
        max(source) FILTER (WHERE axis = %(axis_files)s::smallint) AS were_files,
        max(target) FILTER (WHERE axis = %(axis_files)s::smallint) AS files,
        max(amount) AS amount
    FROM move
    GROUP BY result_id
),

moved AS (
    UPDATE result AS r
    SET
        server_state = coalesce(step.becomes / 10, r.server_state),
        outcome = coalesce(step.becomes %% 10, r.outcome),
        validate_state = coalesce(step.validated, r.validate_state),
        file_delete_state = coalesce(step.files, r.file_delete_state),
        granted_credit = coalesce(step.amount, r.granted_credit)
    FROM step
    WHERE
        r.id = step.result_id
        AND r.server_state * 10 + r.outcome = coalesce(step.was, r.server_state * 10 + r.outcome)
        AND r.validate_state = coalesce(step.was_validated, r.validate_state)
        AND r.file_delete_state = coalesce(step.were_files, r.file_delete_state)
    RETURNING r.id
),

-- All or nothing: the caller rolls back if one of them was not where it was judged.
written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        move.workunit_id,
        move.result_id,
        move.axis,
        move.source,
        move.target,
        move.because,
        %(by)s::smallint
    FROM move
    WHERE %(ledger)s::boolean
)

SELECT id FROM moved
