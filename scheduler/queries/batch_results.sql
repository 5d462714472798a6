-- How many results of a batch are in which server state.
SELECT
    result.server_state,
    count(*) AS results
FROM workunit
INNER JOIN result ON workunit.id = result.workunit_id
WHERE workunit.batch_id = %(batch_id)s::bigint
GROUP BY result.server_state
