-- The count of an inactive workunit that was not woken is the number of its unmet dependencies.
-- A parent whose answer the transitioner has not seen yet will wake its children.
SELECT
    w.name,
    w.pending_dependency_count || ' pending dependencies, but ' || counted.unmet || ' are unmet'
        AS detail
FROM workunit AS w
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE p.canonical_result_id IS NULL)
        + w.waits_for_batch::integer AS unmet,
        coalesce(
            bool_or(
                p.canonical_result_id IS NOT NULL
                AND p.assimilate_state = {{AssimilateState.INIT}}
            ), FALSE
        ) AS is_early
    FROM dependency AS d
    INNER JOIN workunit AS p ON d.parent_id = p.id
    WHERE d.child_id = w.id
) AS counted
WHERE
    w.has_parents
    AND w.release_state = {{ReleaseState.INACTIVE}}
    AND w.canonical_result_id IS NULL
    AND w.error_mask = 0
    AND w.pending_dependency_count <> counted.unmet
    AND NOT counted.is_early
    AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
