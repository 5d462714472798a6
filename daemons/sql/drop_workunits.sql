-- Drop locked, archived workunits with all that is theirs; credit stays.
WITH theirs AS MATERIALIZED (
    SELECT r.id
    FROM result AS r
    WHERE r.workunit_id = any(%(ids)s::bigint[])
),

dropped_outputs AS (
    DELETE FROM result_file
    WHERE result_id = any(ARRAY(SELECT id FROM theirs))
),

dropped_samples AS (
    DELETE FROM usage_sample
    WHERE result_id = any(ARRAY(SELECT id FROM theirs))
),

dropped_trickles AS (
    DELETE FROM trickle_up
    WHERE result_id = any(ARRAY(SELECT id FROM theirs))
    RETURNING id
),

dropped_answers AS (
    DELETE FROM trickle_down
    WHERE result_id = any(ARRAY(SELECT id FROM theirs))
),

dropped_trickle_failures AS (
    DELETE FROM science_failure
    WHERE
        stage = 3
        AND subject_id = any(ARRAY(SELECT id FROM dropped_trickles))
),

dropped_failures AS (
    DELETE FROM science_failure
    WHERE
        stage = any(ARRAY[1, 2])
        AND subject_id = any(%(ids)s::bigint[])
),

dropped_refusals AS (
    DELETE FROM refusal
    WHERE workunit_id = any(%(ids)s::bigint[])
),

dropped_results AS (
    DELETE FROM result
    WHERE workunit_id = any(%(ids)s::bigint[])
),

dropped_inputs AS (
    DELETE FROM workunit_file
    WHERE workunit_id = any(%(ids)s::bigint[])
)

DELETE FROM workunit
WHERE id = any(%(ids)s::bigint[])
