-- Read apps with pending workunits whose validator is not on the fast path.
SELECT
    app.id,
    app.name,
    app.validator,
    app.validator_options,
    extract(EPOCH FROM app.science_time_limit)::double precision AS seconds
FROM app
WHERE
    app.validator <> all(%(at_once)s::text[])
    AND EXISTS (SELECT FROM workunit AS w WHERE w.need_validate AND w.app_id = app.id)
ORDER BY app.id
