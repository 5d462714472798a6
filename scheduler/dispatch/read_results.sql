-- Reads the results that hosts report or list, and all results in progress on them (to find lost
-- ones).  The previous statement locked the workunits of the reported results, so the state of
-- these results cannot change.  The state of the other results may change, so the statements that
-- update them check it again.
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
    -- Ids are looked up first, each kind of search by its own index; then the rows are read.
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
