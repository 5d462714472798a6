-- Every workunit on which a released workunit depends has, or had, a canonical result.
SELECT
    w.name,
    'was released before ' || p.name || ' had an answer' AS detail
FROM dependency AS d
INNER JOIN workunit AS w ON d.child_id = w.id
INNER JOIN workunit AS p ON d.parent_id = p.id
WHERE
    w.release_state <> {{ReleaseState.INACTIVE}}
    AND p.canonical_result_id IS NULL
    AND NOT EXISTS (
        SELECT FROM ledger_entry AS e
        WHERE
            e.workunit_id = p.id
            AND e.axis = {{Axis.WORKUNIT}}
            AND e.target IN ({{WorkunitState.CANONICAL}}, {{WorkunitState.COMPLETE}})
    )
