-- No open workunit depends on a failed workunit, unless one of them is in the transitioner's queue.
SELECT
    w.name,
    'depends on ' || p.name || ', which has failed' AS detail
FROM dependency AS d
INNER JOIN workunit AS w ON d.child_id = w.id
INNER JOIN workunit AS p ON d.parent_id = p.id
WHERE
    p.error_mask <> 0
    AND w.canonical_result_id IS NULL
    AND w.error_mask = 0
    AND NOT EXISTS (
        SELECT FROM workunit_wakeup AS q
        WHERE q.workunit_id = w.id OR q.workunit_id = p.id
    )
