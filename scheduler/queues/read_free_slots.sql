-- Counts the free slots of queues with limits, up to `most` per queue, without locks.  A queue is
-- crowded if it has slots above its limit, which remain after the limit was lowered.  `fits` is
-- true if fewer slots than the limit are in use, so that `balance` can open the queue again.
SELECT
    capped.queue_id,
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM queue_slot AS free
            WHERE
                free.queue_id = capped.queue_id
                AND free.result_id IS NULL
                AND free.number <= capped.max_in_progress
            LIMIT %(most)s::integer
        ) AS counted
    ) AS free_slots,
    crowd.is_so AS is_crowded,
    CASE
        WHEN crowd.is_so
            THEN (
                SELECT count(slot.result_id) < capped.max_in_progress
                FROM queue_slot AS slot
                WHERE slot.queue_id = capped.queue_id
            )
        ELSE FALSE
    END AS fits
FROM unnest(%(queue_ids)s::bigint[], %(limits)s::integer[]) AS capped (queue_id, max_in_progress)
CROSS JOIN LATERAL (
    SELECT
        EXISTS (
            SELECT
            FROM queue_slot AS above
            WHERE above.queue_id = capped.queue_id AND above.number > capped.max_in_progress
        ) AS is_so
) AS crowd
