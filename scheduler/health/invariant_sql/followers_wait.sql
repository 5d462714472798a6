-- A workunit waits while its batch's predecessor has older open workunits, and is then released.
SELECT
    w.name,
    CASE
        WHEN w.pending_dependency_count = 0
            THEN 'is let go before batch ' || predecessor.name || ' is over'
        ELSE 'waits, but its batch is noted to be let go'
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
        w.pending_dependency_count = 0
        AND w.error_mask = 0
        AND w.id > still.first_id
    )
    OR (
        w.pending_dependency_count > 0
        AND w.dependency_failed_at IS NULL
        AND follower.let_go_at IS NOT NULL
    )
