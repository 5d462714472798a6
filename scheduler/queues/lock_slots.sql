-- Locks free slots of queues with limits, as many as a claim may use.  It skips slots that other
-- claims have locked, so it never waits.  While a queue has slots above its limit, none is free.
SELECT
    slot.id,
    slot.queue_id
FROM unnest(%(queue_ids)s::bigint[], %(limits)s::integer[], %(wanted)s::integer[])
    AS capped (queue_id, max_in_progress, wanted)
CROSS JOIN LATERAL (
    SELECT
        free.id,
        free.queue_id
    FROM queue_slot AS free
    WHERE
        free.queue_id = capped.queue_id
        AND free.result_id IS NULL
        AND free.number <= capped.max_in_progress
        AND NOT EXISTS (
            SELECT
            FROM queue_slot AS above
            WHERE above.queue_id = capped.queue_id AND above.number > capped.max_in_progress
        )
    ORDER BY free.number
    LIMIT capped.wanted
    FOR NO KEY UPDATE OF free SKIP LOCKED
) AS slot
