-- Canonical outputs are released only when all results are over and every success is validated.
SELECT
    w.name,
    'canonical outputs were released before ' || r.name || ' was over and validated' AS detail
FROM workunit AS w
INNER JOIN result AS canonical ON w.canonical_result_id = canonical.id
INNER JOIN result AS r ON w.id = r.workunit_id
WHERE
    canonical.file_delete_state <> {{FileDeleteState.INIT}}
    -- A due workunit is excluded: the transitioner must still mark a late success.
    AND w.transition_at IS NULL
    AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
    AND (
        r.server_state <> {{ServerState.OVER}}
        OR (
            r.outcome = {{Outcome.SUCCESS}}
            AND r.validate_state IN ({{ValidateState.INIT}}, {{ValidateState.INCONCLUSIVE}})
        )
    )
