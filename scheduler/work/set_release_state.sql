-- Holds or releases workunits for staff, and makes them due for the transitioner.
WITH named AS (
    SELECT
        id,
        name,
        release_state,
        CASE
            WHEN canonical_result_id IS NOT NULL OR error_mask <> 0 THEN 'finished'
            WHEN release_state = %(target)s::smallint THEN 'already'
            WHEN release_state = any(%(sources)s::smallint[]) THEN 'changed'
            ELSE 'impossible'
        END AS said
    FROM workunit
    WHERE
        id = any(%(ids)s::bigint[])
        OR name = any(%(names)s::text[])
        OR batch_id = %(batch_id)s::bigint
    ORDER BY id
    FOR NO KEY UPDATE
),

moved AS (
    UPDATE workunit
    SET
        release_state = %(target)s::smallint,
        transition_at = %(now)s::timestamptz
    FROM named
    WHERE
        workunit.id = named.id
        AND named.said = 'changed'
        AND workunit.release_state = any(%(sources)s::smallint[])
    RETURNING workunit.id, named.release_state AS source
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        moved.id,
        %(axis)s::smallint,
        moved.source,
        %(target)s::smallint,
        %(because)s::smallint,
        %(staff)s::smallint
    FROM moved
    WHERE %(ledger)s::boolean
)

SELECT id, name, said FROM named
