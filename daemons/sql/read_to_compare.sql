-- Read workunits with their apps' rules, in the columns of the validator's locking statements.
SELECT
    w.id,
    w.name,
    w.app_id,
    w.min_quorum,
    w.target_nresults,
    w.canonical_result_id,
    w.canonical_credit,
    w.error_mask,
    w.outputs,
    w.rsc_fpops_est,
    w.rsc_fpops_bound,
    app.validator,
    app.validator_options,
    app.target_nresults AS app_target_nresults,
    app.daily_quota,
    app.min_avg_pfc,
    app.host_scale_check,
    app.credit_rule,
    app.credit_per_workunit
FROM workunit AS w
INNER JOIN app ON w.app_id = app.id
WHERE w.id = any(%(ids)s::bigint[])
ORDER BY w.id
