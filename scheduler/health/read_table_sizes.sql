-- Read the largest tables with their indexes; the partitions of a table are summed up.
SELECT
    coalesce(pg_partition_root(pg_class.oid), pg_class.oid)::regclass::text AS name,
    sum(pg_total_relation_size(pg_class.oid))::bigint AS nbytes,
    sum(greatest(pg_class.reltuples, 0))::bigint AS estimated_rows
FROM pg_class
WHERE
    pg_class.relkind IN ('r', 'p')
    AND pg_class.relnamespace = 'public'::regnamespace
GROUP BY coalesce(pg_partition_root(pg_class.oid), pg_class.oid)
ORDER BY nbytes DESC
LIMIT %(limit)s::bigint
