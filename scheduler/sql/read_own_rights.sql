-- Read the rights of the current role on tables ('' as the column) and on single columns.
WITH tables AS (
    SELECT
        oid,
        relname::text AS name
    FROM pg_class
    WHERE
        relnamespace = current_schema()::regnamespace
        AND relkind IN ('r', 'p')
)

SELECT
    t.name,
    p.privilege,
    '' AS column_name
FROM tables AS t
CROSS JOIN
    unnest(
        ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']
    ) AS p (privilege)
WHERE has_table_privilege(t.oid, p.privilege)
UNION ALL
SELECT
    t.name,
    p.privilege,
    a.attname::text AS column_name
FROM tables AS t
INNER JOIN pg_attribute AS a ON t.oid = a.attrelid
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS p (privilege)
WHERE
    a.attnum > 0
    AND NOT a.attisdropped
    AND has_column_privilege(t.oid, a.attnum, p.privilege)
    AND NOT has_table_privilege(t.oid, p.privilege)
