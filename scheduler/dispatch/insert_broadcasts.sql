-- Inserts one unsent result of each locked broadcast workunit, targeted at one host.
WITH inserted AS (
    INSERT INTO result (
        workunit_id, app_id, name, attempt, priority, server_state, outcome, created_at,
        target_kind, target_id
    )
    SELECT
        w.id,
        w.app_id,
        w.name || '_' || next.attempt,
        next.attempt,
        w.priority,
        {{ServerState.UNSENT}},
        {{Outcome.INIT}},
        %(now)s::timestamptz,
        {{Target.HOST}},
        %(host_id)s::bigint
    FROM workunit AS w
    CROSS JOIN LATERAL (
        SELECT coalesce(max(r.attempt) + 1, 0) AS attempt
        FROM result AS r
        WHERE r.workunit_id = w.id
    ) AS next
    WHERE w.id = ANY(%(workunit_ids)s::bigint[])
    RETURNING id, workunit_id
)

INSERT INTO ledger_entry (at, workunit_id, result_id, axis, source, target, because, by)
SELECT
    %(now)s::timestamptz,
    workunit_id,
    id,
    {{Axis.RESULT}},
    {{NOTHING}},
    {{ResultState.UNSENT}},
    {{Because.BROADCAST}},
    {{Actor.SCHEDULER}}
FROM inserted
WHERE %(ledger)s::boolean
