-- Read the average claims of each app's current versions, and whether they use a GPU.
SELECT
    version.app_id,
    version.id,
    coalesce(plan.spec ->> 'gpu_type', '') <> '' AS on_gpu,
    version.pfc_n AS samples,
    version.pfc_avg AS average
FROM app_version AS version
LEFT JOIN plan_class AS plan ON version.plan_class = plan.name
WHERE NOT version.deprecated
ORDER BY version.app_id, version.id
