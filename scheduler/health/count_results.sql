-- Counts results by app and state, and purged results by outcome, with one scan.
-- The times (in seconds) and the memory (in bytes) are those of results that were not purged.
SELECT
    (
        SELECT app.name
        FROM app
        WHERE app.id = result.app_id
    ) AS app,
    result.server_state,
    result.outcome,
    count(*) AS results,
    sum(result.cpu_time) AS cpu_seconds,
    sum(result.elapsed_time) AS elapsed_seconds,
    max(result.elapsed_time) AS max_elapsed_seconds,
    max(result.peak_working_set_bytes) AS peak_memory_bytes,
    count(*) FILTER (
        WHERE result.file_delete_state IN ({{FileDeleteState.READY}}, {{FileDeleteState.ERROR}})
    ) AS deletable,
    count(*) FILTER (
        WHERE
            result.server_state = {{ServerState.IN_PROGRESS}}
            AND result.report_deadline <= %(now)s::timestamptz
    ) AS overdue
FROM result
GROUP BY result.app_id, result.server_state, result.outcome
UNION ALL
SELECT
    NULL AS app,
    {{ServerState.OVER}} AS server_state,
    purged.outcome,
    sum(purged.results)::bigint AS results,
    NULL AS cpu_seconds,
    NULL AS elapsed_seconds,
    NULL AS max_elapsed_seconds,
    NULL AS peak_memory_bytes,
    0 AS deletable,
    0 AS overdue
FROM purged_results AS purged
GROUP BY purged.outcome
