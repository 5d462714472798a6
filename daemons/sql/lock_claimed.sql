-- Lock workunits that still have the lease token and need validation; read the rules of their apps.
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
INNER JOIN unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS claim (id, token) ON w.id = claim.id
WHERE w.lease_token = claim.token AND w.need_validate
ORDER BY w.id
FOR NO KEY UPDATE OF w
