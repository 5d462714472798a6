-- Release leases whose token is unchanged: failed workunits wait, the others are due at once.
UPDATE workunit AS w
SET
    validate_after = u.again_at,
    lease_until = NULL
FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(again_ats)s::timestamptz[])
    AS u (id, token, again_at)
WHERE w.id = u.id AND w.lease_token = u.token
