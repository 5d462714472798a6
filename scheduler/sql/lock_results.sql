-- Locks the results of locked workunits in ascending order of id and reads their state.
SELECT
    r.id,
    r.workunit_id,
    r.account_id,
    r.host_id,
    r.server_state * 10 + r.outcome AS state,
    r.file_delete_state,
    r.sent_at,
    r.received_at,
    r.app_version_id,
    a.daily_quota,
    coalesce(known.max_results_per_day, 0) AS max_results_per_day
FROM result AS r
INNER JOIN app AS a ON r.app_id = a.id
LEFT JOIN host_app_version AS known
    ON r.host_id = known.host_id AND r.app_version_id = known.app_version_id
WHERE r.id = ANY(%(result_ids)s::bigint[])
ORDER BY r.id
FOR NO KEY UPDATE OF r
