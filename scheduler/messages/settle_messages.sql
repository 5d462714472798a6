-- Write the outcome of attempts to deliver messages, unless another process has leased them since.
-- Rows are locked in ascending ids, as before a deletion of copies of letters.
WITH locked AS MATERIALIZED (
    SELECT id
    FROM outbox_message
    WHERE id = any(%(ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE
)

UPDATE outbox_message
SET
    attempts = outbox_message.attempts - settled.unused,
    next_attempt_at = settled.next_attempt_at,
    sent_at = settled.sent_at,
    parked_at = settled.parked_at,
    last_error = CASE
        WHEN settled.unused = 0 THEN settled.last_error
        ELSE outbox_message.last_error
    END,
    text = CASE WHEN settled.sent_at IS NULL THEN outbox_message.text ELSE '' END,
    unsubscribe_url = CASE
        WHEN settled.sent_at IS NULL THEN outbox_message.unsubscribe_url
        ELSE ''
    END
FROM
    unnest(
        %(ids)s::bigint[],
        %(unused)s::integer[],
        %(next_attempt_at)s::timestamptz[],
        %(sent_at)s::timestamptz[],
        %(parked_at)s::timestamptz[],
        %(last_error)s::text[]
    ) AS settled (id, unused, next_attempt_at, sent_at, parked_at, last_error)
WHERE
    outbox_message.id = settled.id
    AND outbox_message.id IN (SELECT locked.id FROM locked)
    AND outbox_message.next_attempt_at = %(lease_until)s::timestamptz
