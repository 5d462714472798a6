-- Draws ids for new workunits in advance, so that inputs and ledger entries need no join.  Locks the
-- queues of the workunits as `queues/lock_for_work` does, and reads what they accept.
WITH locked AS MATERIALIZED (
    SELECT
        id,
        app_id,
        trusted
    FROM queue
    WHERE id = any(%(queue_ids)s::bigint[])
    ORDER BY id
    FOR KEY SHARE
)

SELECT
    (SELECT json_agg(locked) FROM locked) AS queues,
    array_agg(nextval((SELECT pg_get_serial_sequence('workunit', 'id')::regclass))) AS ids
FROM generate_series(1, %(count)s::integer)
