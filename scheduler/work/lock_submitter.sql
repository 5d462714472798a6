-- Locks and reads a submitter's share and logical clock, and reads the project's speed.
-- The speed is the median of the newest hosts times the planner's estimate of the number of hosts.
SELECT
    submitter.share,
    submitter.logical_start_at,
    (
        SELECT
            coalesce(
                percentile_cont(0.5) WITHIN GROUP (ORDER BY newest.p_fpops * newest.p_ncpus)
                * count(*), 0
            )
            * greatest(1, (
                SELECT pg_class.reltuples / %(hosts)s::integer
                FROM pg_class
                WHERE pg_class.oid = 'host'::regclass
            ))
        FROM (
            SELECT
                host.p_fpops,
                host.p_ncpus
            FROM host
            WHERE host.merged_into_id IS NULL AND NOT host.denied AND host.p_fpops > 0
            ORDER BY host.id DESC
            LIMIT %(hosts)s::integer
        ) AS newest
    ) AS fpops
FROM submitter
WHERE submitter.account_id = %(account_id)s::bigint
FOR NO KEY UPDATE
