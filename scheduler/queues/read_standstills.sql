-- Reads the queues with unsent results, with the facts that explain why they may stand still.
-- `is_scheduled` is true if a schedule or the balance sets the limit.  `full_since` is the last time
-- when a queue without a free slot sent a result.
SELECT
    queue.name,
    coalesce(queue.max_in_progress = 0, FALSE) AS is_stopped,
    (
        queue.balance_group IS NOT NULL
        OR EXISTS (SELECT FROM queue_schedule AS entry WHERE entry.queue_id = queue.id)
    ) AS is_scheduled,
    queue.disabled_until,
    CASE WHEN slots.in_use > 0 AND slots.is_full THEN slots.last_sent_at END AS full_since,
    NOT EXISTS (
        -- As in `rules/serving.serves`.
        SELECT FROM host
        WHERE
            host.rpc_at > %(seen_since)s::timestamptz
            AND NOT host.denied
            AND host.merged_into_id IS NULL
            AND CASE
                WHEN
                    queue.allowed_hosts <> '[]'::jsonb
                    OR queue.allowed_accounts <> '[]'::jsonb
                    THEN
                        queue.allowed_hosts @> to_jsonb(host.id)
                        OR queue.allowed_accounts @> to_jsonb(host.account_id)
                ELSE
                    NOT queue.denied_hosts @> to_jsonb(host.id)
                    AND NOT queue.denied_accounts @> to_jsonb(host.account_id)
            END
    ) AS is_unserved,
    CASE
        WHEN
            NOT EXISTS (
                SELECT FROM result AS own
                WHERE
                    own.target_kind = {{Target.QUEUE}}
                    AND own.target_id = queue.id
                    AND own.server_state = {{ServerState.UNSENT}}
                    AND own.app_id = queue.app_id
            )
            THEN app.name
    END AS only_app
FROM queue
LEFT JOIN app ON queue.app_id = app.id
CROSS JOIN LATERAL (
    SELECT
        count(slot.result_id) AS in_use,
        count(slot.result_id) >= queue.max_in_progress AS is_full,
        max(result.sent_at) AS last_sent_at
    FROM queue_slot AS slot
    LEFT JOIN result ON slot.result_id = result.id
    WHERE slot.queue_id = queue.id
) AS slots
WHERE
    (%(queue_id)s::bigint IS NULL OR queue.id = %(queue_id)s::bigint)
    AND EXISTS (
        SELECT FROM result AS unsent
        WHERE
            unsent.target_kind = {{Target.QUEUE}}
            AND unsent.target_id = queue.id
            AND unsent.server_state = {{ServerState.UNSENT}}
    )
ORDER BY queue.id
