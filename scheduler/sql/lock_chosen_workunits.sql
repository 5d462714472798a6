-- Locks the first workunits of a choice that nobody else has locked and that may still be sent.
-- SKIP LOCKED never waits, so the order of the choice may differ from the order of ids.
SELECT w.id
FROM unnest(
    %(workunit_ids)s::bigint[],
    %(app_version_ids)s::bigint[],
    %(hr_classes)s::integer[]
) WITH ORDINALITY AS chosen (workunit_id, app_version_id, hr_class, position)
INNER JOIN workunit AS w ON chosen.workunit_id = w.id
WHERE
    w.error_mask = 0
    AND w.canonical_result_id IS NULL
    AND w.cancel_requested_at IS NULL
    AND w.release_state = 3
    AND w.pending_dependency_count = 0
    AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
    AND (w.start_before IS NULL OR w.start_before > %(now)s::timestamptz)
    AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
    -- Bound meanwhile to another class of computer, or to another version: no longer for this host.
    AND (w.hr_class = 0 OR w.hr_class = chosen.hr_class)
    AND (w.app_version_id IS NULL OR w.app_version_id = chosen.app_version_id)
ORDER BY chosen.position
LIMIT %(most)s::integer
FOR NO KEY UPDATE OF w SKIP LOCKED
