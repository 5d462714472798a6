-- Every workunit with pending dependencies belongs to a batch with a predecessor.
SELECT
    w.name,
    w.pending_dependency_count
    || ' pending dependencies, but no predecessor. Hint: cancel it and submit it again' AS detail
FROM workunit AS w
LEFT JOIN batch AS b ON w.batch_id = b.id
WHERE
    w.pending_dependency_count > 0
    AND w.canonical_result_id IS NULL
    AND w.error_mask = 0
    AND b.after_id IS NULL
