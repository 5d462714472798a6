-- Counts each app's unsent results and results in progress, and summarizes recent valid ones.
SELECT
    app.id,
    app.name,
    coalesce(counted.unsent, 0) AS unsent,
    coalesce(counted.in_progress, 0) AS in_progress,
    recent.avg_seconds,
    recent.min_seconds,
    recent.max_seconds,
    recent.users
FROM app
LEFT JOIN (
    SELECT
        result.app_id,
        count(*) FILTER (WHERE result.server_state = {{ServerState.UNSENT}}) AS unsent,
        count(*) FILTER (WHERE result.server_state = {{ServerState.IN_PROGRESS}}) AS in_progress
    FROM result
    WHERE result.server_state IN ({{ServerState.UNSENT}}, {{ServerState.IN_PROGRESS}})
    GROUP BY result.app_id
) AS counted ON app.id = counted.app_id
LEFT JOIN (
    SELECT
        result.app_id,
        avg(result.elapsed_time) AS avg_seconds,
        min(result.elapsed_time) AS min_seconds,
        max(result.elapsed_time) AS max_seconds,
        count(DISTINCT result.account_id) AS users
    FROM result
    WHERE
        result.validate_state = {{ValidateState.VALID}}
        AND result.received_at > %(since)s::timestamptz
    GROUP BY result.app_id
) AS recent ON app.id = recent.app_id
WHERE NOT app.deprecated
ORDER BY app.id
