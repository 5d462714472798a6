-- Reads the results of workunits with their hosts and first outputs, for the export of task files.
SELECT
    r.id,
    r.workunit_id,
    r.outcome,
    r.exit_status,
    r.validate_state,
    r.stderr,
    r.sent_at,
    r.received_at,
    r.elapsed_time,
    CASE WHEN r.target_kind = {{Target.BUNDLE}} THEN r.target_id ELSE 0 END AS bundle_id,
    r.host_id,
    coalesce(nullif(h.domain_name, ''), 'host' || h.id::text) AS worker,
    f.name AS output
FROM result AS r
LEFT JOIN host AS h ON r.host_id = h.id
LEFT JOIN result_file AS f ON r.id = f.result_id AND f.position = 0
WHERE r.workunit_id = ANY(%(ids)s::bigint[])
ORDER BY r.workunit_id, r.attempt
