-- Counts the unsent results and the results in progress of queues, each up to a maximum.
-- The order is that of the index results_of_queue.  Without it, the planner may choose the index of
-- all results in progress, and read all of them for a queue that has none.
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
            ORDER BY result.app_id ASC, result.workunit_id ASC
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
            ORDER BY result.app_id ASC, result.workunit_id ASC
            LIMIT %(max_in_progress)s::integer
        ) AS running
    ) AS in_progress
FROM unnest(%(queue_ids)s::bigint[]) AS queue (id)
