-- Reads a limited number of workunits with untargeted unsent results, the most urgent of each app first:
-- in the order of the index that claims use, whatever the planner's statistics of the table are.
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
