-- Reads batches, newest first, with counts of their workunits by state.  Purged workunits count as
-- answered or failed; failed workunits that were retried do not count.
SELECT
    batch.id,
    batch.name,
    account.email AS submitter,
    app.name AS app,
    batch.state,
    batch.created_at,
    batch.expire_at,
    batch.accelerate,
    counted.workunits + batch.purged_done + batch.purged_failed AS workunits,
    counted.open,
    counted.answered + batch.purged_done AS answered,
    counted.failed + batch.purged_failed AS failed,
    counted.unassimilated,
    counted.unpurged
FROM batch
INNER JOIN account ON batch.submitter_id = account.id
LEFT JOIN app ON batch.app_id = app.id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS unpurged,
        count(*) FILTER (WHERE workunit.retried_as IS NULL) AS workunits,
        count(*) FILTER (
            WHERE workunit.canonical_result_id IS NULL AND workunit.error_mask = 0
        ) AS open,
        count(*) FILTER (WHERE workunit.canonical_result_id IS NOT NULL) AS answered,
        count(*) FILTER (
            WHERE workunit.error_mask <> 0 AND workunit.retried_as IS NULL
        ) AS failed,
        count(*) FILTER (
            WHERE workunit.assimilate_state <> {{AssimilateState.DONE}}
        ) AS unassimilated
    FROM workunit
    WHERE workunit.batch_id = batch.id
) AS counted
WHERE
    batch.id = any(
        array(
            SELECT chosen.id
            FROM batch AS chosen
            WHERE
                (%(batch_id)s::bigint IS NULL OR chosen.id = %(batch_id)s::bigint)
                AND (
                    %(submitter_id)s::bigint IS NULL
                    OR chosen.submitter_id = %(submitter_id)s::bigint
                )
            ORDER BY chosen.id DESC
            LIMIT %(limit)s::integer
        )
    )
ORDER BY batch.id DESC
