-- Read apps with pending workunits whose validator is not on the fast path.
SELECT
    app.id,
    app.name,
    app.validator,
    app.validator_options,
    extract(EPOCH FROM app.science_time_limit)::double precision AS seconds
FROM app
WHERE
    -- CASE makes PostgreSQL look for workunits of these apps only.  As a join, it would read all
    -- workunits that need validation, also if no app has such a validator.
    CASE
        WHEN app.validator <> all(%(at_once)s::text[])
            THEN EXISTS (SELECT FROM workunit AS w WHERE w.need_validate AND w.app_id = app.id)
        ELSE FALSE
    END
ORDER BY app.id
