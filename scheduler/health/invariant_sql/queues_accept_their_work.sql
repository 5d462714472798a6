-- Each unfinished workunit of a queue has an app and a deadline that the queue accepts.
SELECT
    workunit.name,
    'is of app ' || app.name || ', but its queue ' || queue.name || ' sends only work of app '
    || queue_app.name AS detail
FROM queue
INNER JOIN app AS queue_app ON queue.app_id = queue_app.id
INNER JOIN workunit ON queue.id = workunit.queue_id
INNER JOIN app ON workunit.app_id = app.id
WHERE workunit.app_id <> queue.app_id AND workunit.finished_at IS NULL
UNION ALL
SELECT
    workunit.name,
    'has an infinite deadline, but its queue ' || queue.name || ' is not trusted' AS detail
FROM queue
INNER JOIN workunit ON queue.id = workunit.queue_id
WHERE
    NOT queue.trusted
    AND workunit.finished_at IS NULL
    -- `queues.facts.FOREVER`
    AND workunit.delay_bound = interval '36600 days'
