-- Reads every app version that runs on one of a host's platforms, the best first within each app:
-- by the client's order of platforms, then the newest; with the app's rules and the measured speed.
SELECT
    v.id,
    v.app_id,
    v.version_num,
    p.name AS platform,
    v.plan_class,
    v.avg_ncpus,
    (v.deprecated OR a.deprecated) AS deprecated,
    v.api_version,
    v.cmdline,
    v.file_prefix,
    coalesce(h.et_n, 0) AS et_n,
    coalesce(h.et_avg, 0) AS et_avg,
    a.name AS app_name,
    a.user_friendly_name,
    a.non_cpu_intensive,
    a.fraction_done_exact,
    a.one_result_per,
    a.retry_same_account_after,
    a.hr_type,
    a.homogeneous_app_version,
    a.max_in_progress_per_cpu
FROM app_version AS v
INNER JOIN app AS a ON v.app_id = a.id
INNER JOIN platform AS p ON v.platform_id = p.id
LEFT JOIN host_app_version AS h ON v.id = h.app_version_id AND h.host_id = %(host_id)s::bigint
WHERE
    p.name = ANY(%(platforms)s::text[])
    AND v.plan_class = ''
    AND NOT v.beta
    AND v.min_core_version <= %(client_version)s::integer
    AND (v.max_core_version = 0 OR v.max_core_version >= %(client_version)s::integer)
ORDER BY v.app_id, array_position(%(platforms)s::text[], p.name::text), v.version_num DESC
