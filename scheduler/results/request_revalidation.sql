-- Requests the revalidation of workunits, and wakes the transitioner.
WITH locked_workunits AS (
    SELECT id
    FROM workunit
    WHERE
        id = any(%(workunit_ids)s::bigint[])
        AND assimilate_state <> {{AssimilateState.DONE}}
        AND error_mask = 0
        AND revalidate_requested_at IS NULL
    ORDER BY id
    FOR NO KEY UPDATE
),

requested AS (
    UPDATE workunit AS w
    SET revalidate_requested_at = %(now)s::timestamptz
    WHERE w.id = any(array(SELECT id FROM locked_workunits))
    RETURNING w.id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM requested
),

-- The validator and the assimilator run again, so their earlier failures are deleted.
forgotten AS (
    DELETE FROM science_failure
    WHERE stage IN (1, 2) AND subject_id = any(array(SELECT id FROM requested))
)

SELECT id FROM requested
