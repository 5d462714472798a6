-- How big the counted tables are, and how many rows the planner believes they and their partial
-- indexes hold (0 when nobody has analysed them yet).
SELECT
    relname::text AS relation,
    pg_relation_size(oid) AS nbytes,
    greatest(reltuples, 0)::float8 AS believed
FROM pg_class
WHERE oid IN (SELECT to_regclass(wanted)::oid FROM unnest(%(names)s::text[]) AS wanted)
