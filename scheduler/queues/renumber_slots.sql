-- Moves slots of a queue with numbers above its limit to the numbers that are not used below.  The
-- queue is locked; slots that a running transaction holds are skipped.
WITH above AS (
    SELECT
        locked.id,
        row_number() OVER (ORDER BY locked.number) AS place
    FROM (
        SELECT
            slot.id,
            slot.number
        FROM queue_slot AS slot
        WHERE slot.queue_id = %(queue_id)s::bigint AND slot.number > %(limit)s::integer
        FOR UPDATE OF slot SKIP LOCKED
    ) AS locked
),

unused AS (
    SELECT
        number,
        row_number() OVER (ORDER BY number) AS place
    FROM generate_series(1, %(limit)s::integer) AS number
    WHERE
        NOT EXISTS (
            SELECT FROM queue_slot AS slot
            WHERE slot.queue_id = %(queue_id)s::bigint AND slot.number = number.number
        )
)

UPDATE queue_slot AS slot
SET number = unused.number
FROM above
INNER JOIN unused ON above.place = unused.place
WHERE slot.id = above.id
