-- Read each host's speed for an app's work, by its best version: estimated operations per second,
-- times the fraction of time in which it computes.
SELECT max(least(1, greatest(0.1, host.on_frac * host.active_frac)) / known.et_avg) AS speed
FROM host_app_version AS known
INNER JOIN app_version AS version ON known.app_version_id = version.id
INNER JOIN host ON known.host_id = host.id
WHERE
    version.app_id = %(app_id)s::bigint
    AND known.et_n >= %(samples)s::double precision
    AND known.et_avg > 1e-18
    AND NOT host.denied
GROUP BY known.host_id
