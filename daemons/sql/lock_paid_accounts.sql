-- Lock the accounts of paid results, in ascending id.
SELECT
    id,
    expavg_credit,
    expavg_at
FROM account
WHERE id = any(%(ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE
