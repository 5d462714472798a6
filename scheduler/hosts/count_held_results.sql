-- Counts the results in progress of hosts.
SELECT count(*) AS results
FROM result
WHERE host_id = any(%(host_ids)s::bigint[]) AND server_state = {{ServerState.IN_PROGRESS}}
