-- Ids drawn before the rows are made, because a file's name contains its id.
SELECT nextval(pg_get_serial_sequence('file', 'id')) AS id
FROM generate_series(1, %(count)s::integer)
