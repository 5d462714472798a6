-- Inserts the slots that a queue lacks up to its limit.  The queue is locked.
INSERT INTO queue_slot (queue_id, number)
SELECT
    %(queue_id)s::bigint,
    number
FROM generate_series(1, %(limit)s::integer) AS number
WHERE
    NOT EXISTS (
        SELECT FROM queue_slot AS slot
        WHERE slot.queue_id = %(queue_id)s::bigint AND slot.number = number.number
    )
ORDER BY number
LIMIT (
    SELECT greatest(0, %(limit)s::integer - count(*))
    FROM queue_slot AS slot
    WHERE slot.queue_id = %(queue_id)s::bigint
)
