-- Locks open batches without unfinished workunits; skips batches that a submission has locked.
-- Includes aborted batches until completed_at is set.
SELECT batch.id
FROM batch
WHERE
    (
        batch.state = %(in_progress)s::smallint
        OR (batch.state = %(aborted)s::smallint AND batch.completed_at IS NULL)
    )
    AND NOT EXISTS (
        SELECT 1
        FROM workunit
        WHERE workunit.batch_id = batch.id AND workunit.assimilate_state <> {{AssimilateState.DONE}}
    )
ORDER BY batch.id
LIMIT %(limit)s::integer
FOR NO KEY UPDATE SKIP LOCKED
