-- Read the role, version, clock, autovacuum and longest transaction of the database in one row.
-- A role without pg_read_all_stats sees the start of its own transactions only.
SELECT
    clock_timestamp() AS database_at,
    current_user::text AS role_name,
    current_setting('server_version') AS version_text,
    current_setting('server_version_num')::integer / 10000 AS version,
    current_setting('autovacuum') = 'on' AS autovacuum,
    (
        SELECT coalesce(max(clock_timestamp() - activity.xact_start), interval '0')
        FROM pg_stat_activity AS activity
        WHERE
            activity.datname = current_database()
            AND activity.backend_type = 'client backend'
    ) AS longest_transaction
