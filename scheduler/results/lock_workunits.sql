-- Locks workunits in ascending id.  These are the first row locks of an RPC.
SELECT id
FROM workunit
WHERE id = ANY(%(workunit_ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE
