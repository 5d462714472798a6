-- Every row is in the target states of its last moves in the ledger.
WITH last_move AS (
    SELECT DISTINCT ON (workunit_id, result_id, axis)
        workunit_id,
        result_id,
        axis,
        target
    FROM ledger_entry
    ORDER BY workunit_id, result_id, axis, id DESC
),

state AS (
    SELECT
        r.name,
        r.workunit_id,
        r.id AS result_id,
        s.axis,
        s.code,
        s.initial
    FROM result AS r
    CROSS JOIN LATERAL (
        VALUES
        ({{Axis.RESULT}}, r.server_state * 10 + r.outcome, -1),
        ({{Axis.VALIDATION}}, r.validate_state, {{ValidateState.INIT}}),
        ({{Axis.RESULT_FILES}}, r.file_delete_state, {{FileDeleteState.INIT}})
    ) AS s (axis, code, initial)
    UNION ALL
    SELECT
        w.name,
        w.id,
        NULL,
        s.axis,
        s.code,
        s.initial
    FROM workunit AS w
    CROSS JOIN LATERAL (
        VALUES
        (
            {{Axis.WORKUNIT}},
            CASE
                WHEN w.canonical_result_id = {{NO_RESULT}} THEN {{WorkunitState.COMPLETE}}
                WHEN w.canonical_result_id IS NOT NULL THEN {{WorkunitState.CANONICAL}}
                WHEN w.error_mask <> 0 THEN {{WorkunitState.FAILED}}
                ELSE {{WorkunitState.OPEN}}
            END,
            -1
        ),
        ({{Axis.ASSIMILATION}}, w.assimilate_state, {{AssimilateState.INIT}}),
        ({{Axis.WORKUNIT_FILES}}, w.file_delete_state, {{FileDeleteState.INIT}})
    ) AS s (axis, code, initial)
)

SELECT
    state.name,
    'axis ' || state.axis || ' is ' || state.code || ', target of the last move in the ledger: '
        || coalesce(last_move.target::text, 'none') AS detail
FROM state
LEFT JOIN last_move
    ON
        state.workunit_id = last_move.workunit_id
        AND state.result_id IS NOT DISTINCT FROM last_move.result_id
        AND state.axis = last_move.axis
WHERE state.code <> coalesce(last_move.target, nullif(state.initial, -1), -2)
