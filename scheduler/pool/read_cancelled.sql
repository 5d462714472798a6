-- Reads the results in progress on hosts whose workunits are cancelled or have failed.
SELECT
    r.host_id,
    r.name
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE
    r.host_id = any(%(host_ids)s::bigint[])
    AND r.server_state = {{ServerState.IN_PROGRESS}}
    AND (w.cancel_requested_at IS NOT NULL OR w.error_mask <> 0)
ORDER BY r.host_id, r.name
