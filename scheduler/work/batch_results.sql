-- Counts the results of a batch by server state; purged results count as OVER.
SELECT
    counted.server_state,
    sum(counted.results)::bigint AS results
FROM (
    SELECT
        result.server_state,
        count(*) AS results
    FROM workunit
    INNER JOIN result ON workunit.id = result.workunit_id
    WHERE workunit.batch_id = %(batch_id)s::bigint
    GROUP BY result.server_state
    UNION ALL
    SELECT
        {{ServerState.OVER}} AS server_state,
        batch.purged_results AS results
    FROM batch
    WHERE batch.id = %(batch_id)s::bigint
) AS counted
GROUP BY counted.server_state
