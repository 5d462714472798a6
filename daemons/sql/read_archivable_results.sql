-- Read all columns of the results of claimed workunits.
SELECT r.* -- noqa: AM04
FROM result AS r
WHERE r.workunit_id = any(%(ids)s::bigint[])
ORDER BY r.id
