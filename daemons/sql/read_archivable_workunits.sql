-- Read all columns of claimed workunits, with the names of their apps and batches.
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
