-- Read successes in the validation states `usable`: one row per uploaded file, at least one row.
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
    coalesce(date_part('epoch', r.received_at - r.sent_at), 0) AS turnaround,
    coalesce(date_part('epoch', %(now)s::timestamptz - r.sent_at), 0) AS age,
    f.position,
    f.name,
    f.sha256
-- One look-up per row: while a new table has no statistics, a join reads the whole table.
FROM unnest(%(workunit_ids)s::bigint[]) AS asking (id)
CROSS JOIN LATERAL (SELECT * FROM result WHERE workunit_id = asking.id OFFSET 0) AS r
LEFT JOIN LATERAL (SELECT * FROM result_file WHERE result_id = r.id OFFSET 0) AS f ON TRUE
WHERE
    r.server_state * 10 + r.outcome = %(success)s::smallint
    AND r.validate_state = any(%(usable)s::smallint[])
ORDER BY r.workunit_id, r.id
