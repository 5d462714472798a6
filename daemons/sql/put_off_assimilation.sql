-- Release leases whose token is unchanged; each workunit is due at `again_at`, or at once if NULL.
UPDATE workunit AS w
SET
    assimilate_after = u.again_at,
    lease_until = NULL
FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(again_ats)s::timestamptz[])
    AS u (id, token, again_at)
WHERE w.id = u.id AND w.lease_token = u.token AND w.lease_until IS NOT NULL
