-- The results of claimed workunits as they are, every column.
SELECT r.* -- noqa: AM04
FROM result AS r
WHERE r.workunit_id = any(%(ids)s::bigint[])
ORDER BY r.id
