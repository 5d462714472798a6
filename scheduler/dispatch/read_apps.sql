-- Reads every app with its rules for dispatch.
SELECT
    id,
    name,
    user_friendly_name,
    kind,
    success_rule,
    deprecated,
    beta,
    weight,
    non_cpu_intensive,
    fraction_done_exact,
    one_result_per,
    retry_same_account_after,
    hr_type,
    homogeneous_app_version,
    max_in_progress_per_cpu,
    max_in_progress_per_gpu,
    max_in_progress_per_host,
    daily_quota,
    target_nresults,
    trusted_after,
    reliable_max_turnaround,
    reduced_delay,
    locality,
    n_size_classes,
    size_bounds
FROM app
ORDER BY id
