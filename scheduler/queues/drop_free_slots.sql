-- Deletes free slots of a queue until it has no more slots than its limit, or none is free.  The
-- queue is locked; slots that a running transaction holds are skipped.
DELETE FROM queue_slot
WHERE
    id = ANY(
        array(
            SELECT slot.id
            FROM queue_slot AS slot
            WHERE slot.queue_id = %(queue_id)s::bigint AND slot.result_id IS NULL
            ORDER BY slot.number DESC
            LIMIT (
                SELECT greatest(0, count(*) - %(limit)s::integer)
                FROM queue_slot AS counted
                WHERE counted.queue_id = %(queue_id)s::bigint
            )
            FOR UPDATE OF slot SKIP LOCKED
        )
    )
