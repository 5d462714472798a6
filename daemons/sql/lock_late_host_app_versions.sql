-- Lock the statistics of app versions on hosts with timed-out results, in ascending order of pairs.
WITH late AS (
    SELECT
        host_id,
        app_version_id,
        count(*) AS results
    FROM unnest(%(host_ids)s::bigint[], %(app_version_ids)s::bigint[]) AS u (host_id, app_version_id)
    GROUP BY host_id, app_version_id
)

SELECT
    record.id,
    record.max_results_per_day,
    late.results,
    coalesce(app.daily_quota, %(daily_quota)s::integer) AS daily_quota
FROM host_app_version AS record
INNER JOIN late ON record.host_id = late.host_id AND record.app_version_id = late.app_version_id
INNER JOIN app_version AS v ON record.app_version_id = v.id
INNER JOIN app ON v.app_id = app.id
ORDER BY record.host_id, record.app_version_id
FOR NO KEY UPDATE OF record
