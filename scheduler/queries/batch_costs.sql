-- What the results of batches that were sent took, and were paid.
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
    AND result.server_state >= 4
    AND result.outcome NOT IN (2, 5)
GROUP BY workunit.batch_id
