-- Returns the workunits of a batch, with the state of their results; with `since`, only those that
-- are unfinished or finished later.
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
        bool_or(one.server_state = {{ServerState.IN_PROGRESS}}) AS in_progress,
        bool_or(one.sent_at IS NOT NULL) AS sent,
        array_agg(one.exit_status ORDER BY one.id) FILTER (
            WHERE one.outcome = {{Outcome.CLIENT_ERROR}}
        ) AS exit_statuses,
        max(one.cpu_time) FILTER (WHERE one.id = w.canonical_result_id) AS cpu_time
    FROM result AS one
    WHERE one.workunit_id = w.id
) AS r
WHERE
    w.batch_id = %(batch_id)s::bigint
    AND (
        %(since)s::timestamptz IS NULL
        OR w.finished_at IS NULL
        OR w.finished_at > %(since)s::timestamptz
    )
ORDER BY w.id
