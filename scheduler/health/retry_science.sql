-- Deletes failures of science code and their back-off, so that subjects are retried immediately.
WITH forgotten AS (
    DELETE FROM science_failure
    WHERE id = any(%(ids)s::bigint[])
    RETURNING stage, subject_id
),

workunits AS (
    UPDATE workunit AS w
    SET
        validate_after = CASE
            WHEN EXISTS (SELECT FROM forgotten AS f WHERE f.stage = 1 AND f.subject_id = w.id)
                THEN NULL
            ELSE w.validate_after
        END,
        assimilate_after = CASE
            WHEN EXISTS (SELECT FROM forgotten AS f WHERE f.stage = 2 AND f.subject_id = w.id)
                THEN NULL
            ELSE w.assimilate_after
        END
    WHERE w.id = any(array(SELECT subject_id FROM forgotten WHERE stage IN (1, 2)))
),

trickles AS (
    UPDATE trickle_up AS t
    SET handle_after = NULL
    WHERE
        t.id = any(array(SELECT subject_id FROM forgotten WHERE stage = 3))
        AND t.handled_at IS NULL
)

SELECT subject_id AS id FROM forgotten
