-- Read the size of the current database in bytes: PostgreSQL adds up the sizes of its files.
SELECT pg_database_size(current_database()) AS nbytes
