-- Locks open batches that had no unfinished workunit a moment ago; a submission holds others off.
-- Aborted ones too, until it is written down when they were over.
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
        WHERE workunit.batch_id = batch.id AND workunit.assimilate_state <> 2
    )
ORDER BY batch.id
LIMIT %(limit)s::integer
FOR NO KEY UPDATE SKIP LOCKED
