-- Lease due messages for delivery: count an attempt, and hide them until the lease ends.  Copies of
-- letters come last, so that a link that resets a password does not wait for them.
WITH due AS (
    SELECT outbox_message.id
    FROM outbox_message
    WHERE
        outbox_message.next_attempt_at <= %(now)s::timestamptz
        AND outbox_message.kind = ANY(%(kinds)s::smallint[])
    ORDER BY
        (outbox_message.letter_id IS NOT NULL),
        outbox_message.next_attempt_at,
        outbox_message.id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE outbox_message
SET
    attempts = outbox_message.attempts + 1,
    next_attempt_at = %(lease_until)s::timestamptz
FROM due
WHERE outbox_message.id = due.id
RETURNING
    outbox_message.id,
    outbox_message.kind,
    outbox_message.recipient,
    outbox_message.subject,
    outbox_message.text,
    outbox_message.created_at,
    outbox_message.attempts,
    outbox_message.unsubscribe_url,
    (outbox_message.letter_id IS NOT NULL) AS is_copy
