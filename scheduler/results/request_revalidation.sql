-- Write down that workunits shall be validated anew, and wake the transitioner.
WITH held AS (
    SELECT id
    FROM workunit
    WHERE
        id = any(%(workunit_ids)s::bigint[])
        AND assimilate_state <> 2
        AND error_mask = 0
        AND revalidate_requested_at IS NULL
    ORDER BY id
    FOR NO KEY UPDATE
),

requested AS (
    UPDATE workunit AS w
    SET
        revalidate_requested_at = %(now)s::timestamptz,
        transition_at = %(now)s::timestamptz
    WHERE w.id = any(array(SELECT id FROM held))
    RETURNING w.id
),

-- Another answer is another question to the science: what it failed on before is forgotten.
forgotten AS (
    DELETE FROM science_failure
    WHERE stage IN (1, 2) AND subject_id = any(array(SELECT id FROM requested))
)

SELECT id FROM requested
