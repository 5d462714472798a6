-- Frees the slots of a queue whose results are not in progress.  The queue is locked.  Each result
-- is looked up by its id.
UPDATE queue_slot
SET result_id = NULL
WHERE
    id = ANY(
        array(
            SELECT slot.id
            FROM queue_slot AS slot
            WHERE
                slot.queue_id = %(queue_id)s::bigint
                AND coalesce(slot.result_id, 0) <> 0
                AND coalesce(
                    (SELECT result.server_state FROM result WHERE result.id = slot.result_id), 0
                ) <> {{ServerState.IN_PROGRESS}}
            FOR NO KEY UPDATE OF slot SKIP LOCKED
        )
    )
