-- Lock the hosts of judged results, in ascending id.
SELECT
    id,
    expavg_credit,
    expavg_at,
    turnaround_seconds
FROM host
WHERE id = any(%(ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE
