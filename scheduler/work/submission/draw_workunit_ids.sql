-- Ids drawn before the rows are made, so that inputs and ledger need no join to find them.
SELECT array_agg(nextval((SELECT pg_get_serial_sequence('workunit', 'id')::regclass))) AS ids
FROM generate_series(1, %(count)s::integer)
