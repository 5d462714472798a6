-- Mark workunits as unsendable and wake the transitioner, or mark them as hard to send.
WITH asked AS (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(unsendables)s::boolean[]) AS u (id, is_unsendable)
),

-- A workunit that another transaction has locked is marked in the next pass.
locked AS (
    SELECT id
    FROM workunit
    WHERE id = any(%(ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

marked AS (
    UPDATE workunit AS w
    SET
        unsendable_at = CASE WHEN asked.is_unsendable THEN %(now)s::timestamptz END,
        hard_to_send_at = coalesce(w.hard_to_send_at, %(now)s::timestamptz)
    FROM asked
    INNER JOIN locked ON asked.id = locked.id
    WHERE w.id = asked.id AND w.unsendable_at IS NULL
    RETURNING w.id, w.unsendable_at
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM marked
    WHERE unsendable_at IS NOT NULL
)

SELECT id, unsendable_at FROM marked
