-- Reads one unfinished workunit of a queue that belongs to another app.  Two probes of the index
-- with this name: without a match, `app_id <>` would read all unfinished work of the queue.  Without
-- the order, the planner may scan the table, because it expects that many rows match.
(
    SELECT id
    FROM workunit
    WHERE
        queue_id = %(queue_id)s::bigint
        AND app_id < %(app_id)s::bigint
        AND finished_at IS NULL
    ORDER BY app_id
    LIMIT 1
)
UNION ALL
(
    SELECT id
    FROM workunit
    WHERE
        queue_id = %(queue_id)s::bigint
        AND app_id > %(app_id)s::bigint
        AND finished_at IS NULL
    ORDER BY app_id
    LIMIT 1
)
LIMIT 1
