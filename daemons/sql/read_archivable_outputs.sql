-- Read the output files of results.
SELECT f.* -- noqa: AM04
FROM result_file AS f
WHERE f.result_id = any(%(result_ids)s::bigint[])
ORDER BY f.result_id, f.position
