-- Locks a predecessor batch, so that it cannot be completed before this transaction ends, and reads
-- its state and whether it has failed workunits.
SELECT
    batch.id,
    batch.name,
    batch.state,
    batch.completed_at,
    batch.submitter_id,
    batch.purged_failed > 0 OR EXISTS (
        SELECT 1
        FROM workunit
        WHERE
            workunit.batch_id = batch.id
            AND workunit.error_mask <> 0
            AND workunit.retried_as IS NULL
    ) AS failed
FROM batch
WHERE batch.id = %(id)s::bigint
FOR SHARE OF batch
