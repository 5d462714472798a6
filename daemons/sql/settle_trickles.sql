-- Mark trickles whose lease is unchanged as handled; return their ids.
UPDATE trickle_up
SET handled_at = %(now)s::timestamptz, handle_after = NULL
WHERE
    id = any(%(ids)s::bigint[])
    AND handled_at IS NULL
    AND handle_after = %(lease_until)s::timestamptz
RETURNING id
