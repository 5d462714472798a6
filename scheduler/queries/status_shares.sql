-- Which share of a table's rows holds each value of a column of small integers, as the last ANALYZE
-- saw it.
SELECT
    common.found,
    common.frequency::float8 AS frequency
FROM pg_stats AS seen,
    unnest(seen.most_common_vals::text::int[], seen.most_common_freqs) AS common (found, frequency)
WHERE
    seen.schemaname = current_schema()
    AND seen.tablename = %(table_name)s::text
    AND seen.attname = %(column_name)s::text
