-- Reads one unsent result of a queue that belongs to another app.
SELECT result.id
FROM result
WHERE
    result.target_kind = {{Target.QUEUE}}
    AND result.target_id = %(queue_id)s::bigint
    AND result.server_state = {{ServerState.UNSENT}}
    AND result.app_id <> %(app_id)s::bigint
LIMIT 1
