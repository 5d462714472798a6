-- Reads the unsent results of locked workunits that wait for a task list.
SELECT
    r.id AS result_id,
    w.id AS workunit_id,
    w.app_id,
    w.batch_id,
    r.priority,
    w.created_at,
    r.created_at AS waits_since,
    coalesce(
        extract(EPOCH FROM w.expected_duration)::double precision, w.rsc_fpops_est / 1e9
    ) AS seconds,
    b.bundle_size AS max_size,
    extract(EPOCH FROM b.bundle_duration)::double precision AS max_seconds
FROM workunit AS w
INNER JOIN batch AS b ON w.batch_id = b.id
INNER JOIN result AS r ON w.id = r.workunit_id
WHERE
    w.id = ANY(%(ids)s::bigint[])
    AND r.server_state = {{ServerState.UNSENT}}
    AND r.target_kind = {{Target.BUNDLE}}
    AND r.target_id = 0
ORDER BY w.id
