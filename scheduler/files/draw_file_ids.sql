-- Draws ids before the rows are inserted, because a file's name contains its id.
SELECT array_agg(nextval((SELECT pg_get_serial_sequence('file', 'id')::regclass))) AS ids
FROM generate_series(1, %(count)s::integer)
