-- Write the outcome of attempts to deliver messages, unless another process has leased them since.
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
    text = CASE WHEN settled.sent_at IS NULL THEN outbox_message.text ELSE '' END
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
    AND outbox_message.next_attempt_at = %(lease_until)s::timestamptz
