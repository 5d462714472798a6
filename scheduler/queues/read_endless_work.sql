-- Reads one unfinished workunit of a queue with an infinite deadline.  Without the order, the planner
-- may scan the table instead of the index with this name, because it expects that many rows match.
SELECT id
FROM workunit
WHERE
    queue_id = %(queue_id)s::bigint
    AND finished_at IS NULL
    -- `queues.facts.FOREVER`
    AND delay_bound = interval '36600 days'
ORDER BY app_id
LIMIT 1
