-- Locks the first chosen workunits that are sendable and not locked by other transactions; returns
-- the host class and app version to which they are bound.  SKIP LOCKED never waits, so rows need
-- not be locked in the order of ids.
SELECT
    w.id,
    w.hr_class,
    w.app_version_id
FROM unnest(%(workunit_ids)s::bigint[]) WITH ORDINALITY AS chosen (workunit_id, position)
INNER JOIN workunit AS w ON chosen.workunit_id = w.id
WHERE
    w.error_mask = 0
    AND w.canonical_result_id IS NULL
    AND w.cancel_requested_at IS NULL
    AND w.release_state = {{ReleaseState.RELEASED}}
    AND w.pending_dependency_count = 0
    AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
    AND (w.start_before IS NULL OR w.start_before > %(now)s::timestamptz)
    AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
ORDER BY chosen.position
LIMIT %(most)s::integer
FOR NO KEY UPDATE OF w SKIP LOCKED
