-- Wake unfinished workunits whose `end_before` has passed, unless they are in the queue already.
-- A workunit that waits for the validator stays open (`replication._has_expired`); the validator
-- wakes it.
WITH expired AS (
    SELECT id
    FROM workunit AS w
    WHERE
        end_before <= %(now)s::timestamptz
        AND assimilate_state = %(unfinished)s::smallint
        AND assimilate_state = {{AssimilateState.INIT}}
        AND NOT need_validate
        AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
        AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
    ORDER BY end_before
    LIMIT %(limit)s::bigint
)

INSERT INTO workunit_wakeup (workunit_id, inserted_at)
SELECT id, %(now)s::timestamptz FROM expired
