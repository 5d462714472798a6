-- Reads the queues whose slots differ from their limit or from their results in progress.  More
-- slots than the limit are right if all of them are in use.
SELECT queue.id
FROM queue
WHERE
    (
        SELECT count(*) <> greatest(coalesce(queue.max_in_progress, 0), count(slot.result_id))
        FROM queue_slot AS slot
        WHERE slot.queue_id = queue.id
    )
    OR EXISTS (
        SELECT
        FROM queue_slot AS above
        WHERE above.queue_id = queue.id
        HAVING
            max(above.number) > queue.max_in_progress
            AND count(above.result_id) <= queue.max_in_progress
    )
    OR EXISTS (
        SELECT
        FROM queue_slot AS slot
        LEFT JOIN result ON slot.result_id = result.id
        WHERE
            slot.queue_id = queue.id
            AND slot.result_id IS NOT NULL
            AND coalesce(result.server_state, 0) <> {{ServerState.IN_PROGRESS}}
    )
    OR (
        queue.max_in_progress IS NOT NULL
        AND EXISTS (
            SELECT
            FROM result
            WHERE
                result.target_kind = {{Target.QUEUE}}
                AND result.target_id = queue.id
                AND result.server_state = {{ServerState.IN_PROGRESS}}
                AND NOT EXISTS (SELECT FROM queue_slot AS slot WHERE slot.result_id = result.id)
        )
    )
ORDER BY queue.id
