-- Counts all and open workunits of running batches with accelerate_tail that are not accelerated.
SELECT
    batch.id,
    batch.purged_done + batch.purged_failed + counted.total AS total,
    counted.still_open AS still_open
FROM batch
CROSS JOIN LATERAL (
    SELECT
        count(*) AS total,
        count(*) FILTER (
            WHERE workunit.canonical_result_id IS NULL AND workunit.error_mask = 0
        ) AS still_open
    FROM workunit
    WHERE workunit.batch_id = batch.id AND workunit.retried_as IS NULL
) AS counted
WHERE
    batch.state = %(in_progress)s::smallint
    AND batch.accelerate_tail
    AND NOT batch.accelerate
    AND batch.tail_at IS NULL
ORDER BY batch.id
