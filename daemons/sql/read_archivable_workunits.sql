-- Claimed workunits as they are, every column, with the names of their app and batch.
SELECT
    w.*, -- noqa: AM04
    (
        SELECT app.name
        FROM app
        WHERE app.id = w.app_id
    ) AS app,
    (
        SELECT b.name
        FROM batch AS b
        WHERE b.id = w.batch_id
    ) AS batch
FROM workunit AS w
WHERE w.id = any(%(ids)s::bigint[])
ORDER BY w.id
