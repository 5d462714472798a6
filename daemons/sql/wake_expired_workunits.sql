-- Make unfinished workunits due whose `end_before` has passed, unless they are already due.
WITH expired AS (
    SELECT id
    FROM workunit
    WHERE
        end_before <= %(now)s::timestamptz
        AND assimilate_state = %(unfinished)s::smallint
        AND assimilate_state = {{AssimilateState.INIT}}
        AND (transition_at IS NULL OR transition_at > %(now)s::timestamptz)
        AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    ORDER BY end_before
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE workunit AS w
SET transition_at = %(now)s::timestamptz
FROM expired
WHERE w.id = expired.id
