-- Lock the teams of paid accounts, in ascending id.
SELECT
    id,
    expavg_credit,
    expavg_at
FROM team
WHERE id = any(%(ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE
