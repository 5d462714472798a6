-- Reads the workunits of which a host holds results; nobody gives it more while its RPC runs.
SELECT DISTINCT workunit_id
FROM result
WHERE host_id = %(host_id)s::bigint AND server_state = 4
