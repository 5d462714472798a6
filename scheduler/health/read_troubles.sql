-- Reads the facts for alerts in one row; each subquery uses an index or a small table.
WITH refused AS MATERIALIZED (
    -- The unsent workunits of the newest refusals.
    SELECT DISTINCT newest.workunit_id
    FROM (
        SELECT refusal.workunit_id
        FROM refusal
        ORDER BY refusal.at DESC
        LIMIT %(max_refusals)s::bigint
    ) AS newest
    WHERE
        EXISTS (
            SELECT 1
            FROM result
            WHERE
                result.workunit_id = newest.workunit_id
                AND result.server_state = {{ServerState.UNSENT}}
        )
),

refusing AS MATERIALIZED (
    -- The number of these workunits, by the number of active hosts that refused them.
    SELECT
        counted.hosts,
        count(*) AS workunits
    FROM (
        SELECT count(DISTINCT host.id) AS hosts
        FROM refused
        INNER JOIN refusal ON refused.workunit_id = refusal.workunit_id
        INNER JOIN host ON refusal.host_id = host.id
        WHERE
            host.rpc_at > %(seen_since)s::timestamptz
            AND NOT host.denied
            AND host.merged_into_id IS NULL
        GROUP BY refusal.workunit_id
    ) AS counted
    GROUP BY counted.hosts
)

SELECT
    (
        SELECT count(*)
        FROM (
            SELECT refusal.workunit_id
            FROM refused
            INNER JOIN refusal ON refused.workunit_id = refusal.workunit_id
            INNER JOIN app ON refusal.app_id = app.id
            GROUP BY refusal.workunit_id, app.max_infeasible
            HAVING
                2 * count(*) >= coalesce(app.max_infeasible, %(max_infeasible)s::integer)
        ) AS hard
    ) AS hard_to_send,
    -- Only active hosts count: see dispatch.rules.sendability.  They are counted only as far as an
    -- alert needs: one more than the most hosts that refused one workunit.
    (
        SELECT count(*)
        FROM (
            SELECT host.id
            FROM host
            WHERE
                host.rpc_at > %(seen_since)s::timestamptz
                AND NOT host.denied
                AND host.merged_into_id IS NULL
            LIMIT (SELECT coalesce(1 + max(refusing.hosts), 0) FROM refusing)
        ) AS active
    ) AS hosts_about,
    (
        SELECT jsonb_object_agg(refusing.hosts, refusing.workunits) FROM refusing
    ) AS refused_by,
    (
        SELECT jsonb_object_agg(parked.stage, parked.subjects)
        FROM (
            SELECT
                science_failure.stage,
                count(*) AS subjects
            FROM science_failure
            WHERE science_failure.parked_at IS NOT NULL
            GROUP BY science_failure.stage
        ) AS parked
    ) AS parked,
    (
        SELECT array_agg(batch.name ORDER BY batch.expire_at, batch.id)
        FROM batch
        WHERE
            batch.state < 2
            AND batch.expire_at > %(now)s::timestamptz
            AND batch.expire_at <= %(now)s::timestamptz + %(remind_before)s::interval
    ) AS expiring_batches,
    (
        SELECT
            jsonb_agg(
                jsonb_build_array(
                    app.name
                    || to_char(version.version_num / 100.0, ' FM9999999990.00 ')
                    || platform.name
                    || coalesce(' (' || nullif(version.plan_class, '') || ')', ''),
                    version.rollback_reason
                )
                ORDER BY version.id
            )
        FROM app_version AS version
        INNER JOIN app ON version.app_id = app.id
        INNER JOIN platform ON version.platform_id = platform.id
        WHERE
            version.rolled_back_at IS NOT NULL
            AND NOT version.deprecated
            AND NOT app.deprecated
    ) AS rolled_back,
    (
        SELECT
            jsonb_object_agg(
                newest.kind,
                jsonb_build_array(extract(EPOCH FROM newest.ended_at), newest.unresolved)
            )
        FROM (
            SELECT DISTINCT ON (check_run.kind)
                check_run.kind,
                check_run.ended_at,
                check_run.unresolved
            FROM check_run
            WHERE check_run.ended_at IS NOT NULL
            ORDER BY check_run.kind, check_run.ended_at DESC, check_run.id DESC
        ) AS newest
    ) AS last_checks,
    (SELECT count(*) FROM outage WHERE outage.applied_at IS NULL) AS open_outages,
    (
        SELECT count(*) FROM outbox_message WHERE outbox_message.parked_at IS NOT NULL
    ) AS parked_messages,
    (SELECT heartbeat.seen_at FROM heartbeat WHERE heartbeat.name = 'web') AS web_seen_at
