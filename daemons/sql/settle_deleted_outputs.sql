-- Settle results whose outputs were deleted, or could not be, unless something came meanwhile.
WITH tried AS (
    SELECT *
    FROM unnest(
        %(ids)s::bigint[],
        %(workunit_ids)s::bigint[],
        %(received_ats)s::timestamptz[],
        %(targets)s::smallint[],
        %(again_ats)s::timestamptz[]
    ) AS t (id, workunit_id, received_at, target, again_at)
),

-- Workunits before results, as everywhere; what is locked is deleted once more in the next pass.
locked AS (
    SELECT id
    FROM workunit
    WHERE id IN (SELECT workunit_id FROM tried)
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

was AS (
    SELECT
        r.id,
        r.file_delete_state
    FROM result AS r
    INNER JOIN tried ON r.id = tried.id
),

settled AS (
    UPDATE result AS r
    SET
        file_delete_state = tried.target,
        file_delete_after = tried.again_at
    FROM tried
    INNER JOIN locked ON tried.workunit_id = locked.id
    INNER JOIN was ON tried.id = was.id
    WHERE
        r.id = tried.id
        AND r.file_delete_state = was.file_delete_state
        AND r.file_delete_state = any(%(sources)s::smallint[])
        AND r.received_at IS NOT DISTINCT FROM tried.received_at
    RETURNING r.id, r.workunit_id, was.file_delete_state AS source, r.file_delete_state AS target
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
