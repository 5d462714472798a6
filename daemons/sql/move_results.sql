-- Move results of locked workunits on up to three axes, if they are still in the judged states, and
-- write their pay.  Steps (the changes of a result) and moves (its entries in the ledger) are
-- numbered, because most results of a pass change in the same way.  A step may have a state before
-- it, and none after it, for an axis on which the result does not move.
WITH moved AS (
    UPDATE result AS r
    SET
        server_state = coalesce(step.becomes / 10, r.server_state),
        outcome = coalesce(step.becomes %% 10, r.outcome),
        validate_state = coalesce(step.validated, r.validate_state),
        file_delete_state = coalesce(step.files, r.file_delete_state),
        granted_credit = coalesce(step.amount, r.granted_credit)
    FROM (
        SELECT
            stepping.result_id,
            stepping.amount,
            (%(was)s::smallint[])[stepping.number] AS was,
            (%(becomes)s::smallint[])[stepping.number] AS becomes,
            (%(was_validated)s::smallint[])[stepping.number] AS was_validated,
            (%(validated)s::smallint[])[stepping.number] AS validated,
            (%(were_files)s::smallint[])[stepping.number] AS were_files,
            (%(files)s::smallint[])[stepping.number] AS files
        FROM unnest(%(result_ids)s::bigint[], %(numbers)s::integer[], %(amounts)s::numeric[])
            AS stepping (result_id, number, amount)
    ) AS step
    WHERE
        r.id = step.result_id
        AND r.server_state * 10 + r.outcome = coalesce(step.was, r.server_state * 10 + r.outcome)
        AND r.validate_state = coalesce(step.was_validated, r.validate_state)
        AND r.file_delete_state = coalesce(step.were_files, r.file_delete_state)
    RETURNING r.id
),

-- The caller rolls back if any result was not moved, because all moves are written here.
written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        move.workunit_id,
        move.result_id,
        (%(move_axes)s::smallint[])[move.number],
        (%(move_sources)s::smallint[])[move.number],
        (%(move_targets)s::smallint[])[move.number],
        (%(move_becauses)s::smallint[])[move.number],
        %(by)s::smallint
    FROM unnest(
        %(move_workunit_ids)s::bigint[],
        %(move_result_ids)s::bigint[],
        %(move_numbers)s::integer[]
    ) AS move (workunit_id, result_id, number)
    WHERE %(ledger)s::boolean
)

SELECT id FROM moved
