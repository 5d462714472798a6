-- Counts the unsent results and the results in progress of queues, each up to a maximum.
SELECT
    queue.id AS queue_id,
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM result
            WHERE
                result.target_kind = {{Target.QUEUE}}
                AND result.target_id = queue.id
                AND result.server_state = {{ServerState.UNSENT}}
            LIMIT %(max_unsent)s::integer
        ) AS waiting
    ) AS unsent,
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM result
            WHERE
                result.target_kind = {{Target.QUEUE}}
                AND result.target_id = queue.id
                AND result.server_state = {{ServerState.IN_PROGRESS}}
            LIMIT %(max_in_progress)s::integer
        ) AS running
    ) AS in_progress
FROM unnest(%(queue_ids)s::bigint[]) AS queue (id)
