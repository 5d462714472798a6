-- Release unchanged leases of trickles; each trickle is due at `again_at`, or at once if NULL.
UPDATE trickle_up AS t
SET handle_after = u.again_at
FROM unnest(%(ids)s::bigint[], %(again_ats)s::timestamptz[]) AS u (id, again_at)
WHERE
    t.id = u.id
    AND t.handled_at IS NULL
    AND t.handle_after = %(lease_until)s::timestamptz
