-- Reads when the oldest workunit with an unsent result was created, for each queue that has one.
-- The index results_of_queue sorts the workunits by app, so that each app of a queue takes one
-- look-up.  The lowest id is the oldest, as in the order fifo.
WITH RECURSIVE head AS (
    SELECT
        queue.id AS queue_id,
        0::bigint AS app_id,
        NULL::bigint AS workunit_id
    FROM unnest(%(queue_ids)s::bigint[]) AS queue (id)
    UNION ALL
    SELECT
        head.queue_id,
        next_app.app_id,
        next_app.workunit_id
    FROM head
    CROSS JOIN LATERAL (
        SELECT
            result.app_id,
            result.workunit_id
        FROM result
        WHERE
            result.target_kind = {{Target.QUEUE}}
            AND result.target_id = head.queue_id
            AND result.server_state = {{ServerState.UNSENT}}
            AND result.app_id > head.app_id
        ORDER BY result.app_id ASC, result.workunit_id ASC
        LIMIT 1
    ) AS next_app
)

SELECT
    oldest.queue_id,
    workunit.created_at AS oldest_at
FROM (
    SELECT
        head.queue_id,
        min(head.workunit_id) AS workunit_id
    FROM head
    GROUP BY head.queue_id
) AS oldest
INNER JOIN workunit ON oldest.workunit_id = workunit.id
