-- Each result in progress of a queue with a limit has one slot, and each slot in use such a result.
SELECT
    result.name,
    'is in progress without a slot of queue ' || queue.name AS detail
FROM queue
INNER JOIN result
    ON
        queue.id = result.target_id
        AND result.target_kind = {{Target.QUEUE}}
        AND result.server_state = {{ServerState.IN_PROGRESS}}
WHERE
    queue.max_in_progress IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM queue_slot AS slot
        WHERE slot.result_id = result.id AND slot.queue_id = queue.id
    )
UNION ALL
SELECT
    queue.name,
    'slot ' || slot.number || ' has result ' || slot.result_id || ', which is not in progress'
        AS detail
FROM queue_slot AS slot
INNER JOIN queue ON slot.queue_id = queue.id
LEFT JOIN result
    ON
        slot.result_id = result.id
        AND result.target_kind = {{Target.QUEUE}}
        AND result.target_id = slot.queue_id
        AND result.server_state = {{ServerState.IN_PROGRESS}}
WHERE slot.result_id IS NOT NULL AND result.id IS NULL
