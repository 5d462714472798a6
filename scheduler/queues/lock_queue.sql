-- Locks a queue against claims until the transaction ends; with `waits`, after running claims.
-- Claims never wait for this lock (`dispatch/lock_chosen_workunits`).
SELECT
    CASE
        WHEN %(waits)s::boolean
            THEN pg_advisory_xact_lock(hashtextextended('queue ' || %(queue_id)s::bigint, 0)) IS NOT NULL
        ELSE pg_try_advisory_xact_lock(hashtextextended('queue ' || %(queue_id)s::bigint, 0))
    END AS locked
