-- Count the failed ones among the newest ended results of the computers with the latest errors.
WITH failing AS MATERIALIZED (
    SELECT * FROM unnest(%(host_ids)s::bigint[]) AS host (id)
),

-- The condition on host_id and id equals host_id = failing.id, but with that the planner could scan
-- all results by id for a host without any.
ended AS MATERIALIZED (
    SELECT
        newest.app_id,
        newest.app_version_id,
        newest.outcome,
        newest.exit_status,
        newest.received_at
    FROM failing
    CROSS JOIN LATERAL (
        SELECT
            r.app_id,
            r.app_version_id,
            r.outcome,
            r.exit_status,
            r.received_at
        FROM result AS r
        WHERE
            r.host_id >= failing.id
            AND (r.host_id, r.id) < (failing.id, 9223372036854775807)
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id DESC, r.id DESC
        LIMIT %(results)s::bigint
    ) AS newest
),

failed AS (
    SELECT
        app_id,
        app_version_id,
        outcome,
        exit_status,
        count(*) AS results,
        max(received_at) AS newest_at
    FROM ended
    WHERE outcome IN ({{Outcome.CLIENT_ERROR}}, {{Outcome.VALIDATE_ERROR}})
    GROUP BY app_id, app_version_id, outcome, exit_status
)

SELECT
    (SELECT count(*) FROM failing) AS read_hosts,
    (SELECT count(*) FROM ended) AS read_results,
    (SELECT count(*) FROM failed) AS groups,
    (SELECT coalesce(sum(failed.results), 0) FROM failed)::bigint AS failures,
    failed.app_id,
    failed.app_version_id,
    failed.outcome,
    failed.exit_status,
    failed.results,
    failed.newest_at,
    app.name AS app,
    app_version.version_num,
    app_version.plan_class,
    platform.name AS platform
FROM (SELECT 1 AS always) AS totals
LEFT JOIN failed ON totals.always = 1
LEFT JOIN app ON failed.app_id = app.id
LEFT JOIN app_version ON failed.app_version_id = app_version.id
LEFT JOIN platform ON app_version.platform_id = platform.id
ORDER BY failed.results DESC, failed.newest_at DESC, failed.app_id, failed.exit_status
LIMIT %(limit)s::bigint
