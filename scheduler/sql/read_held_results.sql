-- Reads the results a client says it holds, and those this host should hold (to find lost ones).
SELECT
    r.id,
    r.name,
    r.workunit_id,
    r.app_id,
    r.host_id,
    r.app_version_id,
    r.server_state * 10 + r.outcome AS state,
    r.attempt,
    r.resent_count,
    (r.acknowledged_at IS NOT NULL) AS acknowledged,
    r.sent_at,
    r.report_deadline,
    w.delay_bound,
    coalesce(w.rsc_fpops_est / nullif(r.flops_estimate, 0), 0) AS seconds,
    w.error_mask,
    (w.cancel_requested_at IS NOT NULL) AS cancelled,
    (w.canonical_result_id IS NOT NULL) AS has_canonical,
    (w.assimilate_state = 2) AS assimilated
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE
    r.name = ANY(%(names)s::text[])
    OR (r.host_id = %(host_id)s::bigint AND r.server_state = 4)
