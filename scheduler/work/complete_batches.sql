-- Completes the locked batches that have only finished and assimilated workunits.
UPDATE batch
SET
    state = CASE
        WHEN batch.state = %(in_progress)s::smallint THEN %(complete)s::smallint
        ELSE batch.state
    END,
    completed_at = %(now)s::timestamptz
WHERE
    batch.id = any(%(batch_ids)s::bigint[])
    AND (
        batch.state = %(in_progress)s::smallint
        OR (batch.state = %(aborted)s::smallint AND batch.completed_at IS NULL)
    )
    AND NOT EXISTS (
        SELECT 1
        FROM workunit
        WHERE workunit.batch_id = batch.id AND workunit.assimilate_state <> {{AssimilateState.DONE}}
    )
