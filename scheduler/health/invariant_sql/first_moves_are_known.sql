-- The first move of every row is its creation, unless the day of its creation was dropped.
WITH first_move AS (
    SELECT DISTINCT ON (workunit_id, result_id, axis)
        workunit_id,
        result_id,
        axis,
        source
    FROM ledger_entry
    ORDER BY workunit_id, result_id, axis, id
),

-- Old entries of the ledger are deleted by whole days.
kept AS (
    SELECT date_trunc('day', min(at), 'UTC') AS since
    FROM ledger_entry
)

SELECT
    coalesce(r.name, w.name) AS name,
    'axis ' || first_move.axis || ' begins with a move from ' || first_move.source AS detail
FROM first_move
CROSS JOIN kept
INNER JOIN workunit AS w ON first_move.workunit_id = w.id
LEFT JOIN result AS r ON first_move.result_id = r.id
WHERE
    first_move.source <> {{NOTHING}}
    -- A workunit may be created in any release state.
    AND first_move.axis <> {{Axis.RELEASE}}
    AND (first_move.result_id IS NULL OR r.id IS NOT NULL)
    AND coalesce(r.created_at, w.created_at) >= kept.since
