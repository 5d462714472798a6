-- Every move leaves the state that the move before it reached.
SELECT
    'workunit ' || workunit_id || coalesce(', result ' || result_id, '') AS name,
    'axis ' || axis || ' left ' || source || ' after reaching ' || before AS detail
FROM (
    SELECT
        workunit_id,
        result_id,
        axis,
        source,
        lag(target) OVER (PARTITION BY workunit_id, result_id, axis ORDER BY id) AS before
    FROM ledger_entry
) AS step
WHERE source <> before
