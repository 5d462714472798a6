-- Reads batches that follow another batch, are not released yet, and whose predecessor is over.
SELECT
    follower.id,
    follower.after_id,
    follower.after_any
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
