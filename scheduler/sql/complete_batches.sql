-- Completes those of the locked batches all of whose workunits are finished and assimilated.
UPDATE batch
SET state = %(complete)s::smallint
WHERE
    batch.id = any(%(batch_ids)s::bigint[])
    AND batch.state = %(in_progress)s::smallint
    AND NOT EXISTS (
        SELECT 1
        FROM workunit
        WHERE workunit.batch_id = batch.id AND workunit.assimilate_state <> 2
    )
