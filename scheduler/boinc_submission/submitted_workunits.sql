-- Reads the workunits of a batch, with the state of their results.  With `since`, reads only
-- workunits that are unfinished or were finished after this time.
SELECT
    w.id,
    w.name,
    w.canonical_result_id,
    w.error_mask,
    coalesce(r.in_progress, FALSE) AS in_progress,
    coalesce(r.sent, FALSE) AS sent,
    coalesce(r.exit_statuses, '{}') AS exit_statuses,
    r.cpu_time
FROM workunit AS w
CROSS JOIN LATERAL (
    SELECT
        bool_or(result.server_state = {{ServerState.IN_PROGRESS}}) AS in_progress,
        bool_or(result.sent_at IS NOT NULL) AS sent,
        array_agg(result.exit_status ORDER BY result.id) FILTER (
            WHERE result.outcome = {{Outcome.CLIENT_ERROR}}
        ) AS exit_statuses,
        max(result.cpu_time) FILTER (WHERE result.id = w.canonical_result_id) AS cpu_time
    FROM result
    WHERE result.workunit_id = w.id
) AS r
WHERE
    w.batch_id = %(batch_id)s::bigint
    AND (
        %(since)s::timestamptz IS NULL
        OR w.finished_at IS NULL
        OR w.finished_at > %(since)s::timestamptz
    )
ORDER BY w.id
