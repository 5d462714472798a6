-- Reads the queues with these names, with the names of their apps.
SELECT
    queue.id,
    queue.name,
    app.name AS app,
    queue.trusted
FROM queue
LEFT JOIN app ON queue.app_id = app.id
WHERE queue.name = any(%(names)s::text[])
