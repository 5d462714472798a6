-- Marks workunits as assimilated without science code (GIVEN_UP, by staff), and wakes the
-- transitioner for them.
WITH settled AS (
    UPDATE workunit AS w
    SET
        assimilate_state = %(target)s::smallint,
        finished_at = %(now)s::timestamptz,
        lease_until = NULL,
        -- Invalidates the claim of an assimilator that is processing the workunit.
        lease_token = w.lease_token + 1
    WHERE
        w.id = any(%(workunit_ids)s::bigint[])
        AND w.assimilate_state = any(%(sources)s::smallint[])
    RETURNING w.id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM settled
),

forgotten AS (
    DELETE FROM science_failure
    WHERE stage IN (1, 2) AND subject_id = any(array(SELECT id FROM settled))
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        id,
        %(axis)s::smallint,
        %(source)s::smallint,
        %(target)s::smallint,
        %(because)s::smallint,
        %(by)s::smallint
    FROM settled
    WHERE %(ledger)s::boolean
)

SELECT id FROM settled
