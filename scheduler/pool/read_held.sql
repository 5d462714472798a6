-- Counts the results in progress on a host by app and app version, with the bytes of their outputs.
SELECT
    r.app_id,
    r.app_version_id,
    count(*) AS held,
    coalesce(sum(w.output_bytes), 0)::bigint AS output_bytes
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE r.host_id = %(host_id)s::bigint AND r.server_state = {{ServerState.IN_PROGRESS}}
GROUP BY r.app_id, r.app_version_id
