-- Reads every app and each of its versions that runs on one of a host's platforms: by the client's
-- order of platforms, then the newest; with the app's rules, and speed and record on this host.
-- An app without such a version comes once, without one: its work is refused, and so explained.
SELECT
    a.id AS app_id,
    a.name AS app_name,
    a.user_friendly_name,
    a.deprecated AS app_deprecated,
    a.beta AS app_beta,
    a.weight,
    a.non_cpu_intensive,
    a.fraction_done_exact,
    a.one_result_per,
    a.retry_same_account_after,
    a.hr_type,
    a.homogeneous_app_version,
    a.max_in_progress_per_cpu,
    a.max_in_progress_per_gpu,
    a.max_in_progress_per_host,
    a.daily_quota,
    a.target_nresults,
    a.trusted_after,
    a.reliable_max_turnaround,
    a.reduced_delay,
    a.locality,
    a.n_size_classes,
    a.size_bounds,
    v.id,
    v.version_num,
    v.platform,
    v.plan_class,
    plan.spec,
    v.avg_ncpus,
    v.deprecated,
    v.beta,
    v.api_version,
    v.cmdline,
    v.file_prefix,
    v.pfc_n,
    v.pfc_avg,
    h.et_n,
    h.et_avg,
    h.consecutive_valid,
    h.max_results_per_day,
    h.results_today,
    h.quota_day,
    h.turnaround_n,
    h.turnaround_avg
FROM app AS a
LEFT JOIN LATERAL (
    SELECT
        version.*,
        p.name AS platform
    FROM app_version AS version
    INNER JOIN platform AS p ON version.platform_id = p.id
    WHERE
        version.app_id = a.id
        AND p.name = ANY(%(platforms)s::text[])
        AND version.min_core_version <= %(client_version)s::integer
        AND (
            version.max_core_version = 0 OR version.max_core_version >= %(client_version)s::integer
        )
) AS v ON TRUE
LEFT JOIN plan_class AS plan ON v.plan_class = plan.name
LEFT JOIN host_app_version AS h ON v.id = h.app_version_id AND h.host_id = %(host_id)s::bigint
ORDER BY a.id, array_position(%(platforms)s::text[], v.platform::text), v.version_num DESC
