-- Read each host's speed with its fastest version of an app: estimated operations per second, times
-- the fraction of time in which the host computes.
SELECT max(least(1, greatest(0.1, host.on_frac * host.active_frac)) / record.et_avg) AS speed
FROM host_app_version AS record
INNER JOIN app_version AS version ON record.app_version_id = version.id
INNER JOIN host ON record.host_id = host.id
WHERE
    version.app_id = %(app_id)s::bigint
    AND record.et_n >= %(samples)s::double precision
    AND record.et_avg > 1e-18
    AND NOT host.denied
GROUP BY record.host_id
