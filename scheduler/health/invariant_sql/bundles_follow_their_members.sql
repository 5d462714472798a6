-- The state of a task list follows from its members, unless a member waits for the transitioner.
WITH member AS (
    SELECT
        m.bundle_id,
        last_one.server_state = {{ServerState.IN_PROGRESS}} AS is_running,
        (
            last_one.server_state IS DISTINCT FROM {{ServerState.IN_PROGRESS}}
            AND w.bundle_id = m.bundle_id
            AND w.error_mask = 0
            AND w.canonical_result_id IS NULL
            AND (
                coalesce(last_one.server_state, 0) <> {{ServerState.OVER}}
                OR last_one.outcome IN ({{Outcome.NO_REPLY}}, {{Outcome.CLIENT_DETACHED}})
            )
        ) AS is_unfinished,
        EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id) AS is_woken
    FROM bundle_member AS m
    INNER JOIN workunit AS w ON m.workunit_id = w.id
    LEFT JOIN LATERAL (
        SELECT
            r.server_state,
            r.outcome
        FROM result AS r
        WHERE
            r.workunit_id = m.workunit_id
            AND r.target_kind = {{Target.BUNDLE}}
            AND r.target_id = m.bundle_id
        ORDER BY r.attempt DESC
        LIMIT 1
    ) AS last_one ON TRUE
),

expected AS (
    SELECT
        bundle_id,
        CASE
            WHEN bool_or(coalesce(is_running, FALSE)) THEN {{BundleState.RUNNING}}
            WHEN bool_or(is_unfinished) THEN {{BundleState.OPEN}}
            ELSE {{BundleState.CLOSED}}
        END AS state
    FROM member
    GROUP BY bundle_id
    HAVING NOT bool_or(is_woken)
)

SELECT
    'task list ' || bundle.id AS name,
    'has the state ' || bundle.state || ', but its members give ' || expected.state AS detail
FROM bundle
INNER JOIN expected ON bundle.id = expected.bundle_id
WHERE bundle.state <> expected.state
