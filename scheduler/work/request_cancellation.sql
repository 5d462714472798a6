-- Records cancellation requests, once per workunit, and wakes the transitioner.
WITH named AS (
    SELECT
        id,
        name,
        CASE
            WHEN canonical_result_id IS NOT NULL OR error_mask <> 0 THEN 'finished'
            WHEN cancel_requested_at IS NOT NULL THEN 'already'
            ELSE 'changed'
        END AS said
    FROM workunit
    WHERE
        id = any(%(ids)s::bigint[])
        OR name = any(%(names)s::text[])
        OR batch_id = %(batch_id)s::bigint
    ORDER BY id
    FOR NO KEY UPDATE
),

requested AS (
    UPDATE workunit
    SET
        cancel_requested_at = %(now)s::timestamptz,
        cancel_reason = %(reason)s::text
    FROM named
    WHERE workunit.id = named.id AND named.said = 'changed'
    RETURNING workunit.id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM requested
)

SELECT id, name, said FROM named
