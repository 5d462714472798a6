-- Draws ids for new workunits in advance, so that inputs and ledger entries need no join.
SELECT array_agg(nextval((SELECT pg_get_serial_sequence('workunit', 'id')::regclass))) AS ids
FROM generate_series(1, %(count)s::integer)
