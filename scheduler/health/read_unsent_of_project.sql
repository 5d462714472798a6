-- Reads a limited number of workunits with untargeted unsent results, by priority within each app.
-- The order is that of the index for claims, so that the plan does not depend on statistics.
SELECT DISTINCT unsent.workunit_id
FROM app
CROSS JOIN LATERAL (
    SELECT result.workunit_id
    FROM result
    WHERE
        result.server_state = {{ServerState.UNSENT}}
        AND result.app_id = app.id
        AND result.target_kind = {{Target.EVERYBODY}}
        AND result.target_id = 0
    ORDER BY result.priority # -1, result.workunit_id
    LIMIT %(limit)s::integer
) AS unsent
LIMIT %(limit)s::integer
