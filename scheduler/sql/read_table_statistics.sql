-- Read the sizes, rows and vacuums of all tables, largest first; partitions are summed up.
-- Rows are the estimate of the last VACUUM or ANALYZE, or, for a table without one, that of
-- PostgreSQL's statistics.  A partitioned table has no rows of its own: ANALYZE sets its estimate
-- to the rows of its partitions, which would count twice.
WITH measured AS (
    SELECT
        coalesce(pg_partition_root(pg_class.oid), pg_class.oid) AS root,
        CASE
            WHEN pg_class.relkind = 'p' THEN 0
            WHEN pg_class.reltuples < 0 THEN pg_stat_get_live_tuples(pg_class.oid)
            ELSE pg_class.reltuples
        END AS estimated_rows,
        pg_stat_get_dead_tuples(pg_class.oid) AS dead_rows,
        greatest(
            pg_stat_get_last_vacuum_time(pg_class.oid),
            pg_stat_get_last_autovacuum_time(pg_class.oid)
        ) AS vacuumed_at,
        pg_table_size(pg_class.oid) AS nbytes_with_toast,
        CASE
            WHEN pg_class.reltoastrelid = 0 THEN 0
            ELSE pg_total_relation_size(pg_class.reltoastrelid)
        END AS toast_nbytes,
        pg_indexes_size(pg_class.oid) AS index_nbytes
    FROM pg_class
    WHERE
        pg_class.relkind IN ('r', 'p')
        AND pg_class.relnamespace = current_schema()::regnamespace
)

SELECT
    root::regclass::text AS name,
    sum(estimated_rows)::bigint AS estimated_rows,
    sum(dead_rows)::bigint AS dead_rows,
    max(vacuumed_at) AS vacuumed_at,
    sum(nbytes_with_toast - toast_nbytes)::bigint AS own_nbytes,
    sum(index_nbytes)::bigint AS index_nbytes,
    sum(toast_nbytes)::bigint AS toast_nbytes,
    count(*) - 1 AS partition_count
FROM measured
GROUP BY root
ORDER BY sum(nbytes_with_toast + index_nbytes) DESC, root
