-- No group has results, and a released group is complete or in the transitioner's queue.
SELECT
    w.name,
    CASE WHEN EXISTS (SELECT FROM result AS r WHERE r.workunit_id = w.id)
        THEN 'has results'
    ELSE 'was released, but is not complete'
    END AS detail
FROM workunit AS w
WHERE
    w.is_group
    AND (
        EXISTS (SELECT FROM result AS r WHERE r.workunit_id = w.id)
        OR (
            w.release_state = {{ReleaseState.RELEASED}}
            AND w.canonical_result_id IS NULL
            AND w.error_mask = 0
            AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
        )
    )
