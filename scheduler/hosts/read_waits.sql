-- Counts the records of app versions on hosts that delay or reduce the work that these hosts get.
SELECT
    count(DISTINCT record.host_id) AS hosts,
    coalesce(
        sum(record.results_today) FILTER (WHERE record.quota_day = %(today)s::date), 0
    )::bigint AS results_today,
    count(*) FILTER (
        WHERE
            record.max_results_per_day > 0
            AND record.max_results_per_day < coalesce(app.daily_quota, %(daily_quota)s::integer)
    ) AS reduced_quotas
FROM host_app_version AS record
INNER JOIN app_version AS version ON record.app_version_id = version.id
INNER JOIN app ON version.app_id = app.id
WHERE
    record.host_id = any(%(host_ids)s::bigint[])
    AND (
        (record.quota_day = %(today)s::date AND record.results_today > 0)
        OR (
            record.max_results_per_day > 0
            AND record.max_results_per_day < coalesce(app.daily_quota, %(daily_quota)s::integer)
        )
    )
