-- Record that the outputs of results were deleted, or set the retry time of failed deletions.
-- Results that were reported since are skipped.
WITH tried AS (
    SELECT *
    FROM unnest(
        %(ids)s::bigint[],
        %(received_ats)s::timestamptz[],
        %(sources_read)s::smallint[],
        %(targets)s::smallint[],
        %(again_ats)s::timestamptz[]
    ) AS t (id, received_at, source, target, again_at)
),

-- Workunits are always locked before results; workunits locked by another transaction are retried
-- in the next pass.
locked AS (
    SELECT id
    FROM workunit
    WHERE id = any(%(workunit_ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

settled AS (
    UPDATE result AS r
    SET
        file_delete_state = tried.target,
        file_delete_after = tried.again_at
    FROM tried
    WHERE
        r.id = tried.id
        -- The ids are an array: row estimates of arrays are too low for a join (a nested loop).
        AND r.workunit_id = any(array(SELECT id FROM locked))
        AND r.file_delete_state = tried.source
        AND r.file_delete_state = any(%(sources)s::smallint[])
        AND r.received_at IS NOT DISTINCT FROM tried.received_at
    RETURNING r.id, r.workunit_id, tried.source, r.file_delete_state AS target
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        workunit_id,
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
