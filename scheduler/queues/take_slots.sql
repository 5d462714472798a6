-- Stores the results of a claim in the slots that it has locked.
UPDATE queue_slot AS slot
SET result_id = taken.result_id
FROM unnest(%(slot_ids)s::bigint[], %(result_ids)s::bigint[]) AS taken (slot_id, result_id)
WHERE
    slot.id = taken.slot_id
    AND slot.id = any(%(slot_ids)s::bigint[])
    -- The slot is free.  No partial index matches this expression, so that the row is found by its id.
    AND coalesce(slot.result_id, 0) = 0
