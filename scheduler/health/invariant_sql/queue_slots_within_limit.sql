-- A queue with a limit has a slot for each permitted result; further slots are in use or closed.
SELECT
    queue.name,
    'has ' || counted.slots || ' slots, ' || counted.in_use || ' of them in use, and a limit of '
    || queue.max_in_progress AS detail
FROM queue
CROSS JOIN LATERAL (
    SELECT
        count(*) AS slots,
        count(slot.result_id) AS in_use,
        -- The slots that claims may take, as in `queues/lock_slots`: no slot while there are slots
        -- above the limit.
        count(*) FILTER (WHERE slot.result_id IS NULL AND slot.number <= queue.max_in_progress)
        * (coalesce(max(slot.number), 0) <= queue.max_in_progress)::integer AS claimable
    FROM queue_slot AS slot
    WHERE slot.queue_id = queue.id
) AS counted
WHERE
    queue.max_in_progress IS NOT NULL
    AND (
        counted.slots < queue.max_in_progress
        OR (counted.claimable > 0 AND counted.claimable + counted.in_use > queue.max_in_progress)
    )
