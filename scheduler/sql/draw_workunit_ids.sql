-- Ids drawn before the rows are made, so that inputs and ledger need no join to find them.
SELECT nextval(pg_get_serial_sequence('workunit', 'id')) AS id
FROM generate_series(1, %(count)s::integer)
