-- Wake workunits whose `transition_at` has passed, the longest due first, and clear that time.
WITH due AS (
    SELECT id
    FROM workunit
    WHERE
        transition_at <= %(now)s::timestamptz
        AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    ORDER BY transition_at
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

cleared AS (
    UPDATE workunit AS w
    SET transition_at = NULL
    FROM due
    WHERE w.id = due.id
    RETURNING w.id
)

INSERT INTO workunit_wakeup (workunit_id, inserted_at)
SELECT id, %(now)s::timestamptz FROM cleared
