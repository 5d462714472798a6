-- Apps whose work waits for a validator that does not exist.
SELECT
    app.name,
    app.validator
FROM app
WHERE
    app.validator <> all(%(validators)s::text[])
    AND EXISTS (SELECT FROM workunit AS w WHERE w.need_validate AND w.app_id = app.id)
ORDER BY app.name
