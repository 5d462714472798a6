-- What the programs of some results wrote to standard error.
SELECT
    r.id,
    r.stderr
FROM result AS r
WHERE r.id = any(%(ids)s::bigint[])
