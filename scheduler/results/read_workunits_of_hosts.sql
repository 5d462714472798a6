-- Reads the workunits of which hosts hold results; the hosts get no more while their RPCs run.
SELECT DISTINCT workunit_id
FROM result
WHERE host_id = ANY(%(host_ids)s::bigint[]) AND server_state = {{ServerState.IN_PROGRESS}}
