-- Sums the usage of a submitter's (or all) batches between two days (UTC), by day, app or batch.
WITH batches AS (
    SELECT
        batch.id,
        batch.name,
        app.name AS app
    FROM batch
    LEFT JOIN app ON batch.app_id = app.id
    WHERE %(submitter_id)s::bigint IS NULL OR batch.submitter_id = %(submitter_id)s::bigint
),

used AS (
    SELECT
        workunit.batch_id,
        (workunit.finished_at AT TIME ZONE 'UTC')::date AS day,
        1 AS workunits,
        0 AS results,
        0::double precision AS cpu_seconds,
        0::double precision AS elapsed_seconds,
        0::double precision AS credit
    FROM batches
    INNER JOIN workunit ON batches.id = workunit.batch_id
    WHERE workunit.finished_at >= %(since)s::date AND workunit.finished_at < %(until)s::date
    UNION ALL
    SELECT
        workunit.batch_id,
        (coalesce(result.received_at, result.sent_at) AT TIME ZONE 'UTC')::date AS day,
        0 AS workunits,
        1 AS results,
        result.cpu_time AS cpu_seconds,
        result.elapsed_time AS elapsed_seconds,
        result.granted_credit::double precision AS credit
    FROM batches
    INNER JOIN workunit ON batches.id = workunit.batch_id
    INNER JOIN result ON workunit.id = result.workunit_id
    WHERE
        coalesce(result.received_at, result.sent_at) >= %(since)s::date
        AND coalesce(result.received_at, result.sent_at) < %(until)s::date
    UNION ALL
    SELECT
        batch_usage.batch_id,
        batch_usage.day,
        batch_usage.workunits,
        batch_usage.results,
        batch_usage.cpu_seconds,
        batch_usage.elapsed_seconds,
        batch_usage.credit
    FROM batches
    INNER JOIN batch_usage ON batches.id = batch_usage.batch_id
    WHERE batch_usage.day >= %(since)s::date AND batch_usage.day < %(until)s::date
)

SELECT
    CASE WHEN %(by)s::text = 'day' THEN used.day END AS day,
    CASE WHEN %(by)s::text = 'app' THEN batches.app END AS app,
    CASE WHEN %(by)s::text = 'batch' THEN batches.id END AS batch,
    CASE WHEN %(by)s::text = 'batch' THEN batches.name END AS name,
    sum(used.workunits)::bigint AS workunits,
    sum(used.results)::bigint AS results,
    sum(used.cpu_seconds) AS cpu_seconds,
    sum(used.elapsed_seconds) AS elapsed_seconds,
    sum(used.credit) AS credit
FROM used
INNER JOIN batches ON used.batch_id = batches.id
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3
