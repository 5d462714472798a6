-- Releases a chunk of workunits that wait for another batch, or records that this batch failed.
WITH waiting AS (
    SELECT id
    FROM workunit
    WHERE
        batch_id = %(batch_id)s::bigint
        AND id > %(after_id)s::bigint
        AND waits_for_batch
        AND dependency_failed_at IS NULL
    ORDER BY id
    LIMIT %(limit)s::integer
    FOR NO KEY UPDATE
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM waiting
)

UPDATE workunit
SET
    waits_for_batch = %(is_failed)s::boolean,
    -- If the workunit also waits for other workunits, the transitioner counts these.
    pending_dependency_count = CASE
        WHEN %(is_failed)s::boolean THEN workunit.pending_dependency_count ELSE 0
    END,
    dependency_failed_at = CASE WHEN %(is_failed)s::boolean THEN %(now)s::timestamptz END
FROM waiting
WHERE workunit.id = waiting.id
RETURNING workunit.id
