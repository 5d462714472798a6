-- Lock the statistics of app versions on locked hosts, in ascending order of the pairs.
SELECT
    host_id,
    app_version_id,
    n_valid,
    consecutive_valid,
    max_results_per_day,
    et_n,
    et_avg,
    pfc_n,
    pfc_avg,
    turnaround_n,
    turnaround_avg,
    uncounted_invalid
FROM host_app_version
WHERE
    (host_id, app_version_id) IN (
        SELECT
            u.host_id,
            u.app_version_id
        FROM unnest(%(host_ids)s::bigint[], %(app_version_ids)s::bigint[])
            AS u (host_id, app_version_id)
    )
ORDER BY host_id, app_version_id
FOR NO KEY UPDATE
