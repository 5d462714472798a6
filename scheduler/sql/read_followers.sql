-- Batches whose workunits wait for another batch that is over, and how that one ended.
SELECT
    follower.id,
    NOT follower.after_any
    AND (
        predecessor.state = %(aborted)s::smallint
        OR predecessor.purged_failed > 0
        OR EXISTS (
            SELECT 1
            FROM workunit
            WHERE
                workunit.batch_id = predecessor.id
                AND workunit.error_mask <> 0
                AND workunit.retried_as IS NULL
        )
    ) AS is_failed
FROM batch AS follower
INNER JOIN batch AS predecessor ON follower.after_id = predecessor.id
WHERE
    follower.let_go_at IS NULL
    AND (
        predecessor.state = any(%(over)s::smallint[])
        OR (
            predecessor.state = %(aborted)s::smallint
            AND (predecessor.completed_at IS NOT NULL OR NOT follower.after_any)
        )
    )
ORDER BY follower.id
LIMIT %(limit)s::integer
