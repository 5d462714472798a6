-- Finds workunits with an unsent result that waits for a task list, along the index
-- read_candidates.
SELECT r.workunit_id
FROM app
CROSS JOIN LATERAL (
    SELECT
        result.workunit_id,
        result.priority
    FROM result
    WHERE
        result.app_id = app.id
        AND result.target_kind = {{Target.BUNDLE}}
        AND result.target_id = 0
        AND result.server_state = {{ServerState.UNSENT}}
    ORDER BY result.priority # -1 ASC, result.workunit_id ASC
    LIMIT %(limit)s::bigint
) AS r
WHERE app.has_bundles
