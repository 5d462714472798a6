-- Read the names of all tables in the schema, without the partitions of the ledger.
SELECT relname::text AS name
FROM pg_class
WHERE
    relnamespace = current_schema()::regnamespace
    AND relkind IN ('r', 'p')
    AND NOT relispartition
ORDER BY relname
