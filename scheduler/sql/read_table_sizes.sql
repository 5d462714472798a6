-- Returns the size in bytes of each table in which web processes and daemons look up rows by key.
SELECT
    grown.name,
    pg_relation_size(grown.name::regclass) AS bytes
FROM unnest(
    '{account, app_version, file, host, host_app_version, result, result_file, workunit, workunit_file}'::text[]
) AS grown (name)
