-- Mark workunits as assimilated and due, if their lease token is unchanged.
WITH leased AS (
    SELECT w.id
    FROM workunit AS w
    INNER JOIN unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS u (id, token) ON w.id = u.id
    WHERE w.lease_token = u.token AND w.assimilate_state = any(%(sources)s::smallint[])
    ORDER BY w.id
    FOR NO KEY UPDATE OF w
),

settled AS (
    UPDATE workunit AS w
    SET
        assimilate_state = %(target)s::smallint,
        finished_at = %(now)s::timestamptz,
        lease_until = NULL
    -- The ids are an array: row estimates of arrays are too low, so a join would be a nested loop.
    FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS u (id, token)
    WHERE
        w.id = u.id
        AND w.id = any(array(SELECT id FROM leased))
        AND w.lease_token = u.token
        AND w.assimilate_state = any(%(sources)s::smallint[])
    RETURNING w.id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM settled
),

-- These workunits have succeeded, so their earlier failures are deleted.
forgotten AS (
    DELETE FROM science_failure AS f
    WHERE f.stage = any('{1, 2}'::smallint[]) AND f.subject_id = any(array(SELECT id FROM settled))
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
