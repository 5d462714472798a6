-- Marks locked task lists as running on the hosts that claimed them.
UPDATE bundle AS b
SET
    state = {{BundleState.RUNNING}},
    is_ready = FALSE,
    host_id = claimed.host_id,
    started_at = %(now)s::timestamptz,
    claims = b.claims + 1
FROM unnest(%(ids)s::bigint[], %(host_ids)s::bigint[]) AS claimed (id, host_id)
WHERE
    b.id = claimed.id
    AND b.state = {{BundleState.OPEN}}
