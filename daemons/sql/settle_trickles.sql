-- Marks trickles as handled that still carry our lease; the ids of those that we settled.
UPDATE trickle_up
SET handled_at = %(now)s::timestamptz, handle_after = NULL
WHERE
    id = any(%(ids)s::bigint[])
    AND handled_at IS NULL
    AND handle_after = %(lease_until)s::timestamptz
RETURNING id
