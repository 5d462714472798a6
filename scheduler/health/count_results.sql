-- Counts results by state, and purged results by outcome, with one scan.
SELECT
    result.server_state,
    result.outcome,
    count(*) AS results,
    count(*) FILTER (
        WHERE result.file_delete_state IN ({{FileDeleteState.READY}}, {{FileDeleteState.ERROR}})
    ) AS deletable,
    count(*) FILTER (
        WHERE
            result.server_state = {{ServerState.IN_PROGRESS}}
            AND result.report_deadline <= %(now)s::timestamptz
    ) AS overdue,
    min(result.report_deadline) FILTER (
        WHERE result.server_state = {{ServerState.IN_PROGRESS}}
    ) AS overdue_since
FROM result
GROUP BY result.server_state, result.outcome
UNION ALL
SELECT
    {{ServerState.OVER}} AS server_state,
    purged.outcome,
    sum(purged.results)::bigint AS results,
    0 AS deletable,
    0 AS overdue,
    NULL AS overdue_since
FROM purged_results AS purged
GROUP BY purged.outcome
