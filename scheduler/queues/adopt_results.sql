-- Inserts slots for the results in progress of a queue that have none: those that were sent while
-- the queue had no limit.  The queue is locked.
INSERT INTO queue_slot (queue_id, number, result_id)
SELECT
    %(queue_id)s::bigint,
    (
        SELECT coalesce(max(slot.number), 0)
        FROM queue_slot AS slot
        WHERE slot.queue_id = %(queue_id)s::bigint
    ) + row_number() OVER (ORDER BY result.id),
    result.id
FROM result
WHERE
    result.target_kind = {{Target.QUEUE}}
    AND result.target_id = %(queue_id)s::bigint
    AND result.server_state = {{ServerState.IN_PROGRESS}}
    AND NOT EXISTS (SELECT FROM queue_slot AS slot WHERE slot.result_id = result.id)
