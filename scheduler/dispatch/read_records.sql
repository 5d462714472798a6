-- Reads the records of app versions on hosts: speed, trust and daily quota.
SELECT
    host_id,
    app_version_id,
    et_n,
    et_avg,
    consecutive_valid,
    max_results_per_day,
    results_today,
    quota_day,
    turnaround_n,
    turnaround_avg
FROM host_app_version
WHERE host_id = ANY(%(host_ids)s::bigint[])
