-- How long the tables are that a count of all work reads, in bytes, now.
SELECT sum(pg_relation_size(counted.name::regclass))::bigint AS nbytes
FROM unnest('{account, host, result, workunit}'::text[]) AS counted (name)
