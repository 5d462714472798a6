-- Count the active hosts to which a workunit with unsent results was refused, and the hosts with a
-- confirmed refusal.  Only workunits that were refused since `asked_since` are counted.
WITH asked AS (
    SELECT DISTINCT workunit_id
    FROM refusal
    WHERE
        at >= %(asked_since)s::timestamptz
        AND workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
),

waiting AS (
    SELECT
        w.id,
        w.name,
        w.app_id,
        w.target_host_id,
        w.target_account_id,
        w.target_team_id,
        w.queue_id,
        w.hard_to_send_at
    FROM asked
    INNER JOIN workunit AS w ON asked.workunit_id = w.id
    WHERE
        w.unsendable_at IS NULL
        AND w.cancel_requested_at IS NULL
        AND w.error_mask = 0
        AND w.canonical_result_id IS NULL
        AND EXISTS (
            SELECT FROM result AS r
            WHERE r.workunit_id = w.id AND r.server_state = {{ServerState.UNSENT}}
        )
),

-- Refusals before the newest app version was published do not count: it may run on these hosts.
newest AS (
    SELECT v.app_id, max(v.created_at) AS created_at
    FROM app_version AS v
    GROUP BY v.app_id
),

about AS (
    SELECT h.id, h.account_id, a.team_id
    FROM host AS h
    INNER JOIN account AS a ON h.account_id = a.id
    WHERE h.rpc_at > %(seen_since)s::timestamptz AND NOT h.denied AND h.merged_into_id IS NULL
)

SELECT
    waiting.id,
    waiting.name,
    app.name AS app,
    waiting.hard_to_send_at,
    coalesce(app.max_infeasible, %(max_infeasible)s::integer) AS max_infeasible,
    refused.confirmed_hosts,
    refused.hosts AS refused_hosts,
    CASE
        WHEN waiting.target_host_id IS NOT NULL
            THEN (SELECT count(*) FROM about WHERE about.id = waiting.target_host_id)
        WHEN waiting.target_account_id IS NOT NULL
            THEN (SELECT count(*) FROM about WHERE about.account_id = waiting.target_account_id)
        WHEN waiting.target_team_id IS NOT NULL
            THEN (SELECT count(*) FROM about WHERE about.team_id = waiting.target_team_id)
        WHEN waiting.queue_id IS NOT NULL
            -- The hosts that the queue serves, as in `queues/rules/serving.serves`.
            THEN (
                SELECT count(*)
                FROM about
                INNER JOIN queue ON queue.id = waiting.queue_id
                WHERE
                    CASE
                        WHEN
                            queue.allowed_hosts <> '[]'::jsonb
                            OR queue.allowed_accounts <> '[]'::jsonb
                            THEN
                                queue.allowed_hosts @> to_jsonb(about.id)
                                OR queue.allowed_accounts @> to_jsonb(about.account_id)
                        ELSE
                            NOT queue.denied_hosts @> to_jsonb(about.id)
                            AND NOT queue.denied_accounts @> to_jsonb(about.account_id)
                    END
            )
        ELSE (SELECT count(*) FROM about)
    END AS seen_hosts
FROM waiting
INNER JOIN app ON waiting.app_id = app.id
LEFT JOIN newest ON waiting.app_id = newest.app_id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS hosts,
        count(*) FILTER (
            WHERE r.counts_at_once
            OR r.at >= greatest(r.first_at, newest.created_at) + %(counts_after)s::interval
        ) AS confirmed_hosts
    FROM refusal AS r
    INNER JOIN host AS h ON r.host_id = h.id
    INNER JOIN account AS a ON h.account_id = a.id
    WHERE
        r.workunit_id = waiting.id
        AND r.at >= coalesce(newest.created_at, '-infinity'::timestamptz)
        AND h.rpc_at > %(seen_since)s::timestamptz
        AND NOT h.denied
        AND h.merged_into_id IS NULL
        -- The target can have changed since the refusal.
        AND h.id = coalesce(waiting.target_host_id, h.id)
        AND a.id = coalesce(waiting.target_account_id, a.id)
        AND (waiting.target_team_id IS NULL OR a.team_id = waiting.target_team_id)
) AS refused
ORDER BY waiting.id
