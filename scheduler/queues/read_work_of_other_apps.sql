-- Reads one unfinished workunit of a queue that belongs to another app.
SELECT id
FROM workunit
WHERE
    queue_id = %(queue_id)s::bigint
    AND app_id <> %(app_id)s::bigint
    AND finished_at IS NULL
LIMIT 1
