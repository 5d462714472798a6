-- Reads one batch of a submitter, or all batches that are not retired, with their progress.  The
-- counts include purged workunits, but not failed workunits that were submitted again.
SELECT
    b.id,
    b.name,
    coalesce(a.name, '') AS app_name,
    b.state,
    b.created_at,
    b.expire_at,
    b.completed_at,
    w.total + b.purged_done + b.purged_failed AS total,
    w.done + b.purged_done AS done,
    w.failed + b.purged_failed AS failed,
    w.credit + b.purged_credit AS credit,
    w.fpops + b.purged_fpops AS fpops,
    w.last_finished_at,
    c.cpu_time + p.cpu_time AS cpu_time
FROM batch AS b
LEFT JOIN app AS a ON b.app_id = a.id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS total,
        count(workunit.canonical_result_id) AS done,
        count(*) FILTER (WHERE workunit.error_mask <> 0) AS failed,
        coalesce(sum(workunit.canonical_credit), 0)::double precision AS credit,
        coalesce(sum(workunit.rsc_fpops_est), 0) AS fpops,
        max(workunit.finished_at) AS last_finished_at
    FROM workunit
    WHERE workunit.batch_id = b.id AND workunit.retried_as IS NULL
) AS w
CROSS JOIN LATERAL (
    SELECT coalesce(sum(r.cpu_time), 0) AS cpu_time
    FROM workunit
    INNER JOIN result AS r ON workunit.id = r.workunit_id
    WHERE workunit.batch_id = b.id AND %(with_cpu_time)s::boolean
) AS c
CROSS JOIN LATERAL (
    SELECT coalesce(sum(usage.cpu_seconds), 0) AS cpu_time
    FROM batch_usage AS usage
    WHERE usage.batch_id = b.id AND %(with_cpu_time)s::boolean
) AS p
WHERE
    b.submitter_id = %(account_id)s::bigint
    AND (b.id = %(batch_id)s::bigint OR (%(batch_id)s::bigint IS NULL AND b.state <> 4))
ORDER BY b.id
