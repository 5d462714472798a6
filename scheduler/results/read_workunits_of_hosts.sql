-- Reads the workunits with results in progress on these hosts.  The hosts get no new results
-- during the RPC.
SELECT DISTINCT workunit_id
FROM result
WHERE host_id = ANY(%(host_ids)s::bigint[]) AND server_state = {{ServerState.IN_PROGRESS}}
