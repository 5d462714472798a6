-- Lock the app versions of valid results, in ascending id, and read their average claims.
SELECT
    id,
    pfc_n,
    pfc_avg
FROM app_version
WHERE id = any(%(ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE
