-- Moves the results in progress on detached hosts from IN_PROGRESS to OVER/CLIENT_DETACHED, with
-- ledger entries, and makes their workunits due for the transitioner.  A previous statement has
-- locked the workunits.
WITH detached AS (
    UPDATE result
    SET
        server_state = {{ServerState.OVER}},
        outcome = {{Outcome.CLIENT_DETACHED}},
        received_at = %(now)s::timestamptz
    WHERE
        host_id = ANY(%(host_ids)s::bigint[])
        AND workunit_id = ANY(%(workunit_ids)s::bigint[])
        AND server_state = {{ServerState.IN_PROGRESS}}
    RETURNING id, workunit_id, target_kind
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT DISTINCT workunit_id, %(now)s::timestamptz FROM detached
),

ledger AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        workunit_id,
        id,
        {{Axis.RESULT}},
        {{ResultState.IN_PROGRESS}},
        {{ResultState.CLIENT_DETACHED}},
        {{Because.HOST_DETACHED}},
        {{Actor.SCHEDULER}}
    FROM detached
    WHERE %(ledger)s::boolean
)

SELECT id, target_kind FROM detached
