-- The source state of every move is the target state of the move before it.
-- Purged workunits are excluded, because dropped days of the ledger leave gaps.
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
    WHERE EXISTS (SELECT FROM workunit AS w WHERE w.id = ledger_entry.workunit_id)
) AS step
WHERE source <> before
