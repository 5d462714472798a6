-- A workunit is released once its batch's predecessor has no older open workunits, and not before.
SELECT
    w.name,
    CASE
        WHEN NOT w.waits_for_batch
            THEN 'was released before batch ' || predecessor.name || ' finished'
        ELSE 'waits for a batch, but its own batch was released'
    END AS detail
FROM batch AS follower
INNER JOIN batch AS predecessor ON follower.after_id = predecessor.id
CROSS JOIN LATERAL (
    SELECT min(open.id) AS first_id
    FROM workunit AS open
    WHERE
        open.batch_id = predecessor.id
        AND open.canonical_result_id IS NULL
        AND open.error_mask = 0
) AS still
INNER JOIN workunit AS w ON follower.id = w.batch_id
WHERE
    (
        NOT w.waits_for_batch
        AND w.error_mask = 0
        AND w.id > still.first_id
    )
    OR (
        w.waits_for_batch
        AND w.dependency_failed_at IS NULL
        AND follower.let_go_at IS NOT NULL
    )
