-- Which share of a table's rows holds each value of some columns of small integers, as the last ANALYZE saw it.
SELECT
    s.attname::text AS column_name,
    common.value::text::int AS value,
    common.share::float8 AS share
FROM pg_stats AS s
CROSS JOIN LATERAL unnest(s.most_common_vals::text::int[], s.most_common_freqs) AS common (value, share)
WHERE s.schemaname = current_schema()
    AND s.tablename = %(table)s::text
    AND s.attname::text = ANY (%(columns)s::text[])
