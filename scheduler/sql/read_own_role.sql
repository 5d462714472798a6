-- Read what the current role can do besides reading and writing rows.
SELECT
    role.rolsuper AS is_superuser,
    role.rolcreaterole AS creates_roles,
    role.rolcreatedb AS creates_databases,
    role.rolreplication OR role.rolbypassrls AS replicates,
    has_schema_privilege(current_schema(), 'CREATE') AS creates_tables,
    has_database_privilege(current_database(), 'TEMPORARY') AS creates_temporary,
    EXISTS (
        SELECT FROM pg_class AS t
        WHERE
            t.relnamespace = current_schema()::regnamespace
            AND t.relkind IN ('r', 'p')
            AND pg_has_role(t.relowner, 'MEMBER')
    ) AS owns_tables
FROM pg_roles AS role
WHERE role.rolname = current_user
