-- Reads the results that hosts report or list, and all results that are assigned to them (to find
-- lost ones).  The workunits of the reported ones are locked by the statement before, so their
-- state is final; the others may change meanwhile, and nothing is decided by them.
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
    (w.assimilate_state = {{AssimilateState.DONE}}) AS assimilated,
    r.account_id,
    w.output_bytes
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE
    -- Each way of naming a result by its own index, and only then the rows.
    r.id = ANY(
        array(
            SELECT unnest(%(reported_ids)s::bigint[])
            UNION
            SELECT listed.id
            FROM result AS listed
            WHERE listed.name = ANY(%(names)s::text[])
            UNION
            SELECT assigned.id
            FROM result AS assigned
            WHERE
                assigned.host_id = ANY(%(host_ids)s::bigint[])
                AND assigned.server_state = {{ServerState.IN_PROGRESS}}
        )
    )
