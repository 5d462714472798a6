-- Outputs kept for a submitter are not released, and are kept only until the batch is retired.
SELECT
    w.name,
    CASE
        WHEN b.retired_at IS NOT NULL THEN 'outputs are kept although the batch is retired'
        ELSE 'outputs are marked as kept, but were released'
    END AS detail
FROM workunit AS w
LEFT JOIN batch AS b ON w.batch_id = b.id
LEFT JOIN result AS r ON w.canonical_result_id = r.id
WHERE
    w.outputs_kept
    AND (b.retired_at IS NOT NULL OR r.file_delete_state <> {{FileDeleteState.INIT}})
