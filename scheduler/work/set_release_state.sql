-- Holds or releases workunits, stores the code of the hold, and wakes the transitioner for them.
WITH named AS (
    SELECT
        id,
        name,
        release_state,
        CASE
            WHEN canonical_result_id IS NOT NULL OR error_mask <> 0 THEN 'finished'
            -- Without a code, staff hold the workunit.
            WHEN
                %(only_coded)s::boolean
                AND release_state = {{ReleaseState.HELD}}
                AND hold_code IS NULL
                THEN 'impossible'
            WHEN
                release_state = %(target)s::smallint
                AND hold_code IS NOT DISTINCT FROM %(hold_code)s::smallint
                THEN 'already'
            WHEN
                release_state = any(%(sources)s::smallint[])
                OR release_state = %(target)s::smallint
                THEN 'changed'
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
        hold_code = %(hold_code)s::smallint
    FROM named
    WHERE
        workunit.id = named.id
        AND named.said = 'changed'
        AND workunit.release_state = named.release_state
    RETURNING workunit.id, named.release_state AS source
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT
        id,
        %(now)s::timestamptz
    FROM moved
    WHERE source <> %(target)s::smallint
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
    WHERE %(ledger)s::boolean AND moved.source <> %(target)s::smallint
)

SELECT id, name, said FROM named
