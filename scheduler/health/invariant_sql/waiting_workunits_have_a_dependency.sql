-- Every workunit with pending dependencies has one, or belongs to a batch with a predecessor.
SELECT
    w.name,
    w.pending_dependency_count
    || ' pending dependencies, but none exists. Hint: cancel it and submit it again' AS detail
FROM workunit AS w
LEFT JOIN batch AS b ON w.batch_id = b.id
WHERE
    w.pending_dependency_count > 0
    AND w.canonical_result_id IS NULL
    AND w.error_mask = 0
    AND NOT (w.waits_for_batch AND b.after_id IS NOT NULL)
    AND NOT EXISTS (SELECT FROM dependency AS d WHERE d.child_id = w.id)
