-- Locks workunits in ascending order of id, waiting for each: the first row locks of an RPC.
-- With a detached host, those of which it holds results are locked in the same sweep.
SELECT id
FROM workunit
WHERE
    id = ANY(%(workunit_ids)s::bigint[])
    OR id IN (
        SELECT r.workunit_id
        FROM result AS r
        WHERE r.host_id = %(detached_host_id)s::bigint AND r.server_state = 4
    )
ORDER BY id
FOR NO KEY UPDATE
