-- Give up on results whose deadline, grace included, has passed, and wake their workunits.
WITH overdue AS (
    SELECT r.id, r.workunit_id
    FROM result AS r
    INNER JOIN app ON r.app_id = app.id
    WHERE
        r.server_state * 10 + r.outcome = any(%(sources)s::smallint[])
        AND r.server_state = 4
        AND r.report_deadline <= %(now)s::timestamptz
        AND r.report_deadline + app.grace <= %(now)s::timestamptz
        AND r.workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    ORDER BY r.report_deadline
    LIMIT %(limit)s::bigint
),

-- Workunits before results, as everywhere; one that is locked comes again in a moment.
locked AS (
    SELECT id
    FROM workunit
    WHERE id IN (SELECT workunit_id FROM overdue)
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),

timed_out AS (
    UPDATE result AS r
    SET
        server_state = %(target)s::smallint / 10,
        outcome = %(target)s::smallint %% 10
    FROM overdue
    INNER JOIN locked ON overdue.workunit_id = locked.id
    WHERE
        r.id = overdue.id
        AND r.server_state * 10 + r.outcome = any(%(sources)s::smallint[])
        AND r.report_deadline <= %(now)s::timestamptz
    RETURNING r.id, r.workunit_id, r.host_id, r.app_version_id
),

woken AS (
    UPDATE workunit AS w
    SET transition_at = %(now)s::timestamptz
    FROM (SELECT DISTINCT workunit_id FROM timed_out) AS changed
    WHERE w.id = changed.workunit_id
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        workunit_id,
        id,
        %(axis)s::smallint,
        %(source)s::smallint,
        %(target)s::smallint,
        %(because)s::smallint,
        %(by)s::smallint
    FROM timed_out
    WHERE %(ledger)s::boolean
)

SELECT id, host_id, app_version_id
FROM timed_out
