-- Reads the current size, in bytes, of the tables that a count of all work reads.
SELECT sum(pg_relation_size(counted.name::regclass))::bigint AS nbytes
FROM unnest('{account, host, result, workunit}'::text[]) AS counted (name)
