-- What is known of app versions on locked hosts.
SELECT
    host_id,
    app_version_id,
    n_valid,
    consecutive_valid,
    et_n,
    et_avg,
    turnaround_n,
    turnaround_avg
FROM host_app_version
WHERE
    (host_id, app_version_id) IN (
        SELECT
            u.host_id,
            u.app_version_id
        FROM unnest(%(host_ids)s::bigint[], %(app_version_ids)s::bigint[])
            AS u (host_id, app_version_id)
    )
