-- Record that the inputs of workunits were deleted, or set the retry time of failed deletions.
WITH tried AS (
    SELECT *
    FROM unnest(
        %(ids)s::bigint[],
        %(sources_read)s::smallint[],
        %(targets)s::smallint[],
        %(again_ats)s::timestamptz[]
    ) AS t (id, source, target, again_at)
),

-- Workunits locked by another transaction are settled in the next pass, in which the missing files
-- are not an error.
locked AS (
    SELECT id
    FROM workunit
    WHERE id = any(%(ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

settled AS (
    UPDATE workunit AS w
    SET
        file_delete_state = tried.target,
        file_delete_after = tried.again_at
    FROM tried
    WHERE
        w.id = tried.id
        -- The ids are an array: row estimates of arrays are too low for a join (a nested loop).
        AND w.id = any(array(SELECT id FROM locked))
        AND w.file_delete_state = tried.source
        AND w.file_delete_state = any(%(sources)s::smallint[])
    RETURNING w.id, tried.source, w.file_delete_state AS target
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        id,
        %(axis)s::smallint,
        source,
        target,
        CASE WHEN target = %(done)s::smallint THEN %(deleted)s::smallint ELSE %(failed)s::smallint END,
        %(by)s::smallint
    FROM settled
    WHERE source <> target AND %(ledger)s::boolean
)

SELECT id, target FROM settled
