-- The usable successes of locked workunits with the digests of what they brought.
SELECT
    r.id,
    r.workunit_id,
    r.validate_state,
    r.host_id,
    r.account_id,
    r.app_version_id,
    r.elapsed_time,
    r.cpu_time,
    r.flops_estimate,
    r.runtime_outlier,
    r.granted_credit,
    coalesce(extract(EPOCH FROM r.received_at - r.sent_at), 0)::double precision AS turnaround,
    coalesce(extract(EPOCH FROM %(now)s::timestamptz - r.sent_at), 0)::double precision AS age,
    brought.positions,
    brought.names,
    brought.digests
FROM result AS r
CROSS JOIN LATERAL (
    SELECT
        array_agg(f.position) AS positions,
        array_agg(f.name) AS names,
        array_agg(f.sha256) AS digests
    FROM result_file AS f
    WHERE f.result_id = r.id
) AS brought
WHERE
    r.workunit_id = any(%(workunit_ids)s::bigint[])
    AND r.server_state * 10 + r.outcome = %(success)s::smallint
    AND r.validate_state = any(%(usable)s::smallint[])
ORDER BY r.workunit_id, r.id
