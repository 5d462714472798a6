-- Count failures of science code, and park subjects that failed too often.
WITH counted AS (
    SELECT
        u.subject_id,
        u.app_id,
        u.error,
        app.name AS app,
        app.max_science_failures AS allowed,
        before.parked_at,
        coalesce(before.failures, 0) + (NOT u.transient)::integer AS failures,
        coalesce(before.transients, 0) + u.transient::integer AS transients
    FROM unnest(
        %(ids)s::bigint[],
        %(app_ids)s::bigint[],
        %(errors)s::text[],
        %(transients)s::boolean[]
    ) AS u (subject_id, app_id, error, transient)
    INNER JOIN app ON u.app_id = app.id
    LEFT JOIN science_failure AS before
        ON before.stage = %(stage)s::smallint AND u.subject_id = before.subject_id
),

judged AS (
    SELECT
        *,
        parked_at IS NULL AND (
            failures >= allowed OR transients >= allowed * %(weight)s::integer
        ) AS parked_now
    FROM counted
),

recorded AS (
    INSERT INTO science_failure
    (stage, subject_id, app_id, failures, transients, error, failed_at, parked_at)
    SELECT
        %(stage)s::smallint,
        subject_id,
        app_id,
        failures,
        transients,
        error,
        %(now)s::timestamptz,
        CASE WHEN parked_now THEN %(now)s::timestamptz ELSE parked_at END
    FROM judged
    ORDER BY subject_id
    ON CONFLICT (stage, subject_id) DO UPDATE
    SET
        failures = excluded.failures,
        transients = excluded.transients,
        error = excluded.error,
        failed_at = excluded.failed_at,
        parked_at = excluded.parked_at
    RETURNING subject_id, failures, transients, parked_at
)

SELECT
    recorded.subject_id,
    recorded.failures,
    recorded.transients,
    recorded.parked_at,
    judged.app,
    judged.parked_now
FROM recorded
INNER JOIN judged ON recorded.subject_id = judged.subject_id
ORDER BY recorded.subject_id
