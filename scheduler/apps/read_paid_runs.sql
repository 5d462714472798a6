-- Read the newest valid results of an app, along the newest grants of credit, with the estimates of
-- their workunits.  A grant has the app, so only results of this app are looked up.
WITH newest AS MATERIALIZED (
    SELECT
        id,
        result_id,
        app_id
    FROM credit_entry
    WHERE id < 9223372036854775807
    ORDER BY id DESC
    LIMIT %(grants)s::bigint
),

wanted AS MATERIALIZED (
    SELECT newest.result_id
    FROM newest
    WHERE newest.app_id = %(app_id)s::bigint AND newest.result_id IS NOT NULL
    ORDER BY newest.id DESC
    LIMIT %(results)s::bigint
)

SELECT
    result.app_version_id,
    result.received_at,
    result.elapsed_time,
    result.cpu_time,
    result.flops_estimate,
    workunit.rsc_fpops_est,
    workunit.rsc_fpops_bound
FROM wanted
INNER JOIN result ON wanted.result_id = result.id
INNER JOIN workunit ON result.workunit_id = workunit.id
WHERE NOT result.runtime_outlier
