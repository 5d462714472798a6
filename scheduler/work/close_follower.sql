-- Sets let_go_at of a batch, unless some of its workunits still wait for another batch.
UPDATE batch
SET let_go_at = %(now)s::timestamptz
WHERE
    id = %(batch_id)s::bigint
    AND let_go_at IS NULL
    AND NOT EXISTS (
        SELECT 1
        FROM workunit
        WHERE
            workunit.batch_id = batch.id
            AND workunit.waits_for_batch
            AND workunit.dependency_failed_at IS NULL
    )
