-- Releases a chunk of workunits that wait for another batch, or records that this batch failed.
WITH waiting AS (
    SELECT id
    FROM workunit
    WHERE
        batch_id = %(batch_id)s::bigint
        AND id > %(after_id)s::bigint
        AND pending_dependency_count > 0
        AND dependency_failed_at IS NULL
    ORDER BY id
    LIMIT %(limit)s::integer
    FOR NO KEY UPDATE
)

UPDATE workunit
SET
    pending_dependency_count = CASE
        WHEN %(is_failed)s::boolean THEN workunit.pending_dependency_count ELSE 0
    END,
    dependency_failed_at = CASE WHEN %(is_failed)s::boolean THEN %(now)s::timestamptz END,
    transition_at = %(now)s::timestamptz
FROM waiting
WHERE workunit.id = waiting.id
RETURNING workunit.id
