-- Reads unsent results of queues that a host of the pool may claim, by id, oldest first.
-- Each queue is read along the index results_of_queue, so that the cost depends on the page.
SELECT
    page.id,
    page.name,
    page.workunit_id,
    page.workunit_name,
    page.app,
    queue.name AS queue,
    page.batch,
    page.priority,
    page.max_termination_time,
    page.delay_bound,
    page.rsc_memory_bound,
    page.rsc_disk_bound,
    page.rsc_fpops_est,
    page.requested_cpus,
    page.requested_gpus
FROM queue
CROSS JOIN LATERAL (
    SELECT
        r.id,
        r.name,
        r.workunit_id,
        w.name AS workunit_name,
        a.name AS app,
        b.name AS batch,
        r.priority,
        coalesce(w.max_termination_time, a.max_termination_time) AS max_termination_time,
        w.delay_bound,
        w.rsc_memory_bound,
        w.rsc_disk_bound,
        w.rsc_fpops_est,
        w.requested_cpus,
        w.requested_gpus
    FROM result AS r
    INNER JOIN workunit AS w ON r.workunit_id = w.id
    INNER JOIN app AS a ON r.app_id = a.id
    LEFT JOIN batch AS b ON w.batch_id = b.id
    WHERE
        r.target_kind = {{Target.QUEUE}}
        AND r.target_id = queue.id
        AND r.server_state = {{ServerState.UNSENT}}
        AND r.id > %(after)s::bigint
        AND w.error_mask = 0
        AND w.canonical_result_id IS NULL
        AND w.cancel_requested_at IS NULL
        AND w.release_state = {{ReleaseState.RELEASED}}
        AND w.pending_dependency_count = 0
        AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
        AND (w.start_before IS NULL OR w.start_before > %(now)s::timestamptz)
        AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
        AND NOT a.deprecated
        AND (%(app)s::text IS NULL OR a.name = %(app)s::text)
        AND (%(batch)s::text IS NULL OR b.name = %(batch)s::text)
        AND (
            %(max_memory_bytes)s::double precision IS NULL
            OR w.rsc_memory_bound <= %(max_memory_bytes)s::double precision
        )
        AND (
            %(max_disk_bytes)s::double precision IS NULL
            OR w.rsc_disk_bound <= %(max_disk_bytes)s::double precision
        )
        AND (
            %(max_fpops)s::double precision IS NULL
            OR w.rsc_fpops_est <= %(max_fpops)s::double precision
        )
        AND (
            %(max_cpus)s::double precision IS NULL
            OR w.requested_cpus <= %(max_cpus)s::double precision
        )
        AND (
            %(max_gpus)s::double precision IS NULL
            OR w.requested_gpus <= %(max_gpus)s::double precision
        )
    ORDER BY r.id
    LIMIT %(limit)s::integer
) AS page
WHERE queue.id = any(%(queue_ids)s::bigint[])
ORDER BY page.id
LIMIT %(limit)s::integer
