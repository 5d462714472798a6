-- Read the standard error of some results.
SELECT
    r.id,
    r.stderr
FROM result AS r
WHERE r.id = any(%(ids)s::bigint[])
