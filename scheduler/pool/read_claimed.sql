-- Reads the results in progress on a host, newest first.
SELECT
    r.id,
    r.name,
    r.report_deadline
FROM result AS r
WHERE r.host_id = %(host_id)s::bigint AND r.server_state = {{ServerState.IN_PROGRESS}}
ORDER BY r.id DESC
LIMIT %(limit)s::integer
