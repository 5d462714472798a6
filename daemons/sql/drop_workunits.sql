-- Drop locked, archived workunits with all that is theirs; credit stays.
-- Their batches, locked before them, remember how they ended, and what they have cost.
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
),

dropped AS (
    DELETE FROM workunit
    WHERE id = any(%(ids)s::bigint[])
    RETURNING id, batch_id, canonical_result_id, retried_as
),

ended AS (
    SELECT
        batch_id,
        count(*) FILTER (WHERE canonical_result_id IS NOT NULL) AS done,
        count(*) FILTER (WHERE canonical_result_id IS NULL AND retried_as IS NULL) AS failed
    FROM dropped
    WHERE batch_id IS NOT NULL
    GROUP BY batch_id
),

spent AS (
    SELECT
        w.batch_id,
        count(*) AS results,
        sum(r.cpu_time) AS cpu_seconds,
        sum(r.elapsed_time) AS elapsed_seconds,
        sum(r.granted_credit)::double precision AS credit
    FROM workunit AS w
    INNER JOIN result AS r ON w.id = r.workunit_id
    WHERE
        w.id = any(%(ids)s::bigint[])
        AND w.batch_id IS NOT NULL
        AND r.outcome NOT IN (2, 5)
    GROUP BY w.batch_id
),

remembered AS (
    UPDATE batch AS b
    SET
        purged_done = b.purged_done + ended.done,
        purged_failed = b.purged_failed + ended.failed,
        purged_results = b.purged_results + coalesce(spent.results, 0),
        purged_cpu_seconds = b.purged_cpu_seconds + coalesce(spent.cpu_seconds, 0),
        purged_elapsed_seconds = b.purged_elapsed_seconds + coalesce(spent.elapsed_seconds, 0),
        purged_credit = b.purged_credit + coalesce(spent.credit, 0)
    FROM ended
    LEFT JOIN spent ON ended.batch_id = spent.batch_id
    WHERE b.id = ended.batch_id
)

SELECT count(*) FROM dropped
