-- Lock workunits with fast-path validators, and read the rules of their apps; skip locked rows.
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
WHERE
    w.need_validate
    AND w.id > %(after_id)s::bigint
    AND app.validator = any(%(validators)s::text[])
    AND w.id %% %(shard_count)s::bigint = %(shard_index)s::bigint
ORDER BY w.id
LIMIT %(limit)s::bigint
FOR NO KEY UPDATE OF w SKIP LOCKED
