-- Locks the first chosen workunits that are sendable and not locked by other transactions; returns
-- the host class and app version to which they are bound.  SKIP LOCKED never waits, so rows need
-- not be locked in the order of ids.
--
-- `queue_ids` are the queues of the chosen results.  Workunits in one of them are locked only if a
-- shared lock on the queue is free.  A change of a queue holds the exclusive lock
-- (`queues/lock_queue`), so that no claim is running when the change is committed.  The lock is only
-- tried, so a claim never waits for a change.
WITH open_queues AS MATERIALIZED (
    SELECT array_agg(queue.id) AS ids
    FROM unnest(%(queue_ids)s::bigint[]) AS queue (id)
    WHERE pg_try_advisory_xact_lock_shared(hashtextextended('queue ' || queue.id, 0))
)

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
    AND (
        w.queue_id IS NULL
        OR %(queue_ids)s::bigint[] IS NULL
        OR w.queue_id <> ALL(%(queue_ids)s::bigint[])
        OR w.queue_id = ANY((SELECT open_queues.ids FROM open_queues)::bigint[])
    )
    AND (w.start_after IS NULL OR w.start_after <= %(now)s::timestamptz)
    AND (w.start_before IS NULL OR w.start_before > %(now)s::timestamptz)
    AND (w.end_before IS NULL OR w.end_before > %(now)s::timestamptz)
ORDER BY chosen.position
LIMIT %(most)s::integer
FOR NO KEY UPDATE OF w SKIP LOCKED
