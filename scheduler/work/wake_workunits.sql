-- Makes workunits due for the transitioner at once.  A wake-up is only inserted, which needs no lock.
WITH named AS (
    SELECT
        id,
        name
    FROM workunit
    WHERE
        id = any(%(ids)s::bigint[])
        OR name = any(%(names)s::text[])
        OR batch_id = %(batch_id)s::bigint
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM named
)

SELECT id, name, 'changed' AS said FROM named
