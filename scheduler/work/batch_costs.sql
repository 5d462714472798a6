-- Sums time and credit of the sent results of batches, including purged results.
SELECT
    asked.batch_id,
    (living.results + coalesce(purged.results, 0))::bigint AS results,
    living.cpu_seconds + coalesce(purged.cpu_seconds, 0) AS cpu_seconds,
    living.elapsed_seconds + coalesce(purged.elapsed_seconds, 0) AS elapsed_seconds,
    living.credit + coalesce(purged.credit, 0) AS credit
FROM unnest(%(batch_ids)s::bigint[]) AS asked (batch_id)
CROSS JOIN LATERAL (
    -- An array takes one scan of the index leaves; a join would search the index per workunit.
    SELECT
        count(*) AS results,
        coalesce(sum(result.cpu_time), 0) AS cpu_seconds,
        coalesce(sum(result.elapsed_time), 0) AS elapsed_seconds,
        coalesce(sum(result.granted_credit), 0)::double precision AS credit
    FROM result
    WHERE
        result.workunit_id = any(
            array(SELECT workunit.id FROM workunit WHERE workunit.batch_id = asked.batch_id)
        )
        AND result.sent_at IS NOT NULL
) AS living
CROSS JOIN LATERAL (
    SELECT
        sum(batch_usage.results) AS results,
        sum(batch_usage.cpu_seconds) AS cpu_seconds,
        sum(batch_usage.elapsed_seconds) AS elapsed_seconds,
        sum(batch_usage.credit) AS credit
    FROM batch_usage
    WHERE batch_usage.batch_id = asked.batch_id
) AS purged
