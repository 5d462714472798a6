-- Sums up the results of a workunit or a batch: numbers by outcome, times and sizes.
SELECT
    count(*) AS results,
    count(*) FILTER (WHERE result.sent_at IS NOT NULL) AS sent,
    count(*) FILTER (WHERE result.server_state = {{ServerState.IN_PROGRESS}}) AS in_progress,
    count(*) FILTER (WHERE result.outcome = {{Outcome.SUCCESS}}) AS successes,
    count(*) FILTER (
        WHERE result.outcome = any(ARRAY[{{Outcome.CLIENT_ERROR}}, {{Outcome.VALIDATE_ERROR}}])
    ) AS errors,
    count(*) FILTER (WHERE result.outcome = {{Outcome.NO_REPLY}}) AS timeouts,
    coalesce(sum(result.cpu_time), 0) AS cpu_seconds,
    coalesce(sum(result.elapsed_time), 0) AS elapsed_seconds,
    avg(result.elapsed_time) FILTER (WHERE result.outcome = {{Outcome.SUCCESS}})
        AS mean_elapsed_seconds,
    max(result.elapsed_time) FILTER (WHERE result.outcome = {{Outcome.SUCCESS}})
        AS max_elapsed_seconds,
    avg(extract(EPOCH FROM result.sent_at - result.created_at))::double precision
        AS mean_wait_seconds,
    avg(extract(EPOCH FROM result.received_at - result.sent_at))::double precision
        AS mean_turnaround_seconds,
    max(result.peak_working_set_bytes) AS peak_memory_bytes
FROM result
WHERE
    -- An array takes one scan of the index leaves; a join would search the index per workunit.
    result.workunit_id = any(array(
        SELECT %(workunit_id)s::bigint
        UNION ALL
        SELECT workunit.id
        FROM workunit
        WHERE workunit.batch_id = %(batch_id)s::bigint
    ))
