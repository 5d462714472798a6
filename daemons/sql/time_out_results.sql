-- Time out results whose deadline, including grace, has passed, and results that their host has not
-- acknowledged within the app's `ack_timeout`, if the app has one; wake their workunits.  Results
-- of trusted queues on hosts of the pool have the timeout `pool_ack_timeout` if the app has none.
WITH passed AS (
    SELECT r.id, r.workunit_id, %(deadline_passed)s::smallint AS because
    FROM result AS r
    INNER JOIN app ON r.app_id = app.id
    WHERE
        r.server_state * 10 + r.outcome = any(%(sources)s::smallint[])
        AND r.server_state = {{ServerState.IN_PROGRESS}}
        AND r.report_deadline <= %(now)s::timestamptz
        AND r.report_deadline + app.grace <= %(now)s::timestamptz
        AND r.workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    ORDER BY r.report_deadline
    LIMIT %(limit)s::bigint
),

-- After an outage, the whole `ack_timeout` runs again for every host.
never_acknowledged AS (
    SELECT r.id, r.workunit_id, %(never_acknowledged)s::smallint AS because
    FROM app
    INNER JOIN result AS r ON app.id = r.app_id
    WHERE
        app.ack_timeout IS NOT NULL
        AND r.server_state * 10 + r.outcome = any(%(sources)s::smallint[])
        AND r.server_state = {{ServerState.IN_PROGRESS}}
        AND r.acknowledged_at IS NULL
        AND greatest(r.sent_at, %(last_outage_ended_at)s::timestamptz) + app.ack_timeout
        <= %(now)s::timestamptz
        AND r.report_deadline > %(now)s::timestamptz
        AND r.workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    LIMIT %(limit)s::bigint
),

-- For a result that was sent before its host was enrolled, the timeout begins with the enrollment.
-- The hosts of the pool are few, and the results in progress of each are read by the index
-- results_held_by_host.  OFFSET 0 keeps the other conditions apart, for which the planner might
-- scan all results in progress.  Here, unlike in never_acknowledged, a usage sample
-- acknowledges its result, too; it is looked up by a subquery, because the planner might join all
-- samples.
never_acknowledged_in_pool AS (
    SELECT r.id, r.workunit_id, %(never_acknowledged)s::smallint AS because
    FROM (
        SELECT
            token.host_id,
            min(token.created_at) AS enrolled_at
        FROM host_token AS token
        WHERE
            token.revoked_at IS NULL
            AND (token.expire_at IS NULL OR token.expire_at > %(now)s::timestamptz)
        GROUP BY token.host_id
    ) AS enrolled
    CROSS JOIN LATERAL (
        SELECT *
        FROM result AS held
        WHERE
            held.host_id = enrolled.host_id
            AND held.server_state = {{ServerState.IN_PROGRESS}}
        OFFSET 0
    ) AS r
    INNER JOIN app ON r.app_id = app.id
    INNER JOIN queue ON r.target_id = queue.id
    WHERE
        app.ack_timeout IS NULL
        AND queue.trusted
        AND r.target_kind = {{Target.QUEUE}}
        AND r.server_state * 10 + r.outcome = any(%(sources)s::smallint[])
        AND r.acknowledged_at IS NULL
        AND greatest(r.sent_at, enrolled.enrolled_at, %(last_outage_ended_at)s::timestamptz)
        + %(pool_ack_timeout)s::interval <= %(now)s::timestamptz
        AND r.report_deadline > %(now)s::timestamptz
        AND r.workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
        AND (
            SELECT sample.id FROM usage_sample AS sample
            WHERE sample.result_id = r.id
            LIMIT 1
        ) IS NULL
    LIMIT %(limit)s::bigint
),

overdue AS (
    SELECT id, workunit_id, because FROM passed
    UNION ALL
    SELECT id, workunit_id, because FROM never_acknowledged
    UNION ALL
    SELECT id, workunit_id, because FROM never_acknowledged_in_pool
),

-- Workunits are always locked before results; results of workunits locked by another transaction
-- time out in a later pass.
locked AS (
    SELECT id
    FROM workunit
    WHERE id IN (SELECT workunit_id FROM overdue)
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

timed_out AS (
    UPDATE result AS r
    SET
        server_state = %(target)s::smallint / 10,
        outcome = %(target)s::smallint %% 10
    FROM overdue
    INNER JOIN locked ON overdue.workunit_id = locked.id
    WHERE
        r.id = overdue.id
        AND r.server_state * 10 + r.outcome = any(%(sources)s::smallint[])
        AND (
            r.report_deadline <= %(now)s::timestamptz
            OR (
                overdue.because = %(never_acknowledged)s::smallint
                AND r.acknowledged_at IS NULL
            )
        )
    RETURNING
        r.id,
        r.workunit_id,
        r.host_id,
        r.app_version_id,
        r.target_kind,
        overdue.because
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM timed_out
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        workunit_id,
        id,
        %(axis)s::smallint,
        %(source)s::smallint,
        %(target)s::smallint,
        because,
        %(by)s::smallint
    FROM timed_out
    WHERE %(ledger)s::boolean
)

SELECT id, host_id, app_version_id, target_kind, because
FROM timed_out
