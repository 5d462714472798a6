-- Drop locked, archived workunits with all their rows except credit entries.
-- The caller has locked the batches, which keep counts of outcomes and costs of these workunits.
-- Totals of apps are locked last, in ascending order of keys; only purgers write these totals.
WITH all_results AS MATERIALIZED (
    SELECT r.id
    FROM result AS r
    WHERE r.workunit_id = any(%(ids)s::bigint[])
),

dropped_outputs AS (
    DELETE FROM result_file
    WHERE result_id = any(ARRAY(SELECT id FROM all_results))
),

dropped_samples AS (
    DELETE FROM usage_sample
    WHERE result_id = any(ARRAY(SELECT id FROM all_results))
),

dropped_trickles AS (
    DELETE FROM trickle_up
    WHERE result_id = any(ARRAY(SELECT id FROM all_results))
    RETURNING id
),

dropped_answers AS (
    DELETE FROM trickle_down
    WHERE result_id = any(ARRAY(SELECT id FROM all_results))
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
    RETURNING app_id, outcome
),

dropped_inputs AS (
    DELETE FROM workunit_file
    WHERE workunit_id = any(%(ids)s::bigint[])
),

dropped AS (
    DELETE FROM workunit
    WHERE id = any(%(ids)s::bigint[])
    RETURNING
        id, app_id, batch_id, canonical_result_id, canonical_credit, rsc_fpops_est, retried_as
),

ended AS (
    SELECT
        batch_id,
        count(*) FILTER (WHERE canonical_result_id IS NOT NULL) AS done,
        count(*) FILTER (WHERE canonical_result_id IS NULL AND retried_as IS NULL) AS failed,
        sum(canonical_credit)::double precision AS credit,
        coalesce(sum(rsc_fpops_est) FILTER (WHERE retried_as IS NULL), 0) AS fpops
    FROM dropped
    WHERE batch_id IS NOT NULL
    GROUP BY batch_id
),

tried AS (
    SELECT
        w.batch_id,
        count(*) AS results
    FROM workunit AS w
    INNER JOIN result AS r ON w.id = r.workunit_id
    WHERE w.id = any(%(ids)s::bigint[]) AND w.batch_id IS NOT NULL
    GROUP BY w.batch_id
),

remembered AS (
    UPDATE batch AS b
    SET
        purged_done = b.purged_done + ended.done,
        purged_failed = b.purged_failed + ended.failed,
        purged_results = b.purged_results + coalesce(tried.results, 0),
        purged_credit = b.purged_credit + ended.credit,
        purged_fpops = b.purged_fpops + ended.fpops
    FROM ended
    LEFT JOIN tried ON ended.batch_id = tried.batch_id
    WHERE b.id = ended.batch_id
),

spent AS (
    SELECT
        w.batch_id,
        (w.finished_at AT TIME ZONE 'UTC')::date AS day,
        1 AS workunits,
        0 AS results,
        0::double precision AS cpu_seconds,
        0::double precision AS elapsed_seconds,
        0::double precision AS credit
    FROM workunit AS w
    WHERE w.id = any(%(ids)s::bigint[]) AND w.batch_id IS NOT NULL
    UNION ALL
    SELECT
        w.batch_id,
        (coalesce(r.received_at, r.sent_at) AT TIME ZONE 'UTC')::date AS day,
        0 AS workunits,
        1 AS results,
        r.cpu_time AS cpu_seconds,
        r.elapsed_time AS elapsed_seconds,
        r.granted_credit::double precision AS credit
    FROM workunit AS w
    INNER JOIN result AS r ON w.id = r.workunit_id
    WHERE
        w.id = any(%(ids)s::bigint[])
        AND w.batch_id IS NOT NULL
        AND r.sent_at IS NOT NULL
),

used AS (
    INSERT INTO batch_usage AS total (
        batch_id, day, workunits, results, cpu_seconds, elapsed_seconds, credit
    )
    SELECT
        batch_id,
        day,
        sum(workunits),
        sum(results),
        sum(cpu_seconds),
        sum(elapsed_seconds),
        sum(credit)
    FROM spent
    GROUP BY batch_id, day
    ON CONFLICT (batch_id, day) DO UPDATE
        SET
            workunits = total.workunits + excluded.workunits,
            results = total.results + excluded.results,
            cpu_seconds = total.cpu_seconds + excluded.cpu_seconds,
            elapsed_seconds = total.elapsed_seconds + excluded.elapsed_seconds,
            credit = total.credit + excluded.credit
),

totals_of_results AS (
    INSERT INTO purged_results AS total (app_id, outcome, results)
    SELECT
        app_id,
        outcome,
        count(*)
    FROM dropped_results
    GROUP BY app_id, outcome
    ORDER BY app_id, outcome
    ON CONFLICT (app_id, outcome) DO UPDATE
        SET results = total.results + excluded.results
),

totals_of_workunits AS (
    INSERT INTO purged_workunits AS total (app_id, done, failed)
    SELECT
        app_id,
        count(canonical_result_id),
        count(*) - count(canonical_result_id)
    FROM dropped
    GROUP BY app_id
    ORDER BY app_id
    ON CONFLICT (app_id) DO UPDATE
        SET
            done = total.done + excluded.done,
            failed = total.failed + excluded.failed
)

SELECT count(*) FROM dropped
