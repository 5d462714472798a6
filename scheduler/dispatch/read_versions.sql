-- Reads every app version with its platform and plan class, the newest of an app first.
SELECT
    v.id,
    v.app_id,
    v.version_num,
    p.name AS platform,
    v.plan_class,
    plan.spec,
    v.avg_ncpus,
    v.deprecated,
    v.beta,
    v.rollout_percent,
    v.api_version,
    v.cmdline,
    v.file_prefix,
    v.dont_throttle,
    v.needs_network,
    v.is_wrapper,
    v.min_core_version,
    v.max_core_version,
    v.pfc_n,
    v.pfc_avg
FROM app_version AS v
INNER JOIN platform AS p ON v.platform_id = p.id
LEFT JOIN plan_class AS plan ON v.plan_class = plan.name
ORDER BY v.app_id, v.version_num DESC, v.id
