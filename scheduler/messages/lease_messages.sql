-- Lease due messages for delivery: count an attempt, and hide them until the lease ends.
WITH due AS (
    SELECT outbox_message.id
    FROM outbox_message
    WHERE
        outbox_message.next_attempt_at <= %(now)s::timestamptz
        AND outbox_message.kind = ANY(%(kinds)s::smallint[])
    ORDER BY outbox_message.next_attempt_at, outbox_message.id
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
    outbox_message.attempts
