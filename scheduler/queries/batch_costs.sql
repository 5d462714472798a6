-- What the results of batches that were sent took, and were paid; those that were purged as well.
SELECT
    spent.batch_id,
    sum(spent.results)::bigint AS results,
    sum(spent.cpu_seconds) AS cpu_seconds,
    sum(spent.elapsed_seconds) AS elapsed_seconds,
    sum(spent.credit) AS credit
FROM (
    SELECT
        workunit.batch_id,
        count(*) AS results,
        sum(result.cpu_time) AS cpu_seconds,
        sum(result.elapsed_time) AS elapsed_seconds,
        sum(result.granted_credit)::double precision AS credit
    FROM workunit
    INNER JOIN result ON workunit.id = result.workunit_id
    WHERE
        workunit.batch_id = any(%(batch_ids)s::bigint[])
        AND result.sent_at IS NOT NULL
    GROUP BY workunit.batch_id
    UNION ALL
    SELECT
        batch_id,
        results,
        cpu_seconds,
        elapsed_seconds,
        credit
    FROM batch_usage
    WHERE batch_id = any(%(batch_ids)s::bigint[])
) AS spent
GROUP BY spent.batch_id
