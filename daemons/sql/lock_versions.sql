-- Lock the app versions of valid results, in ascending id, with the averages of their claims.
SELECT
    id,
    pfc_n,
    pfc_avg
FROM app_version
WHERE id = any(%(ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE
