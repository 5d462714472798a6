-- Read the credit entries of results, in order of time.
SELECT c.* -- noqa: AM04
FROM credit_entry AS c
WHERE c.result_id = any(%(result_ids)s::bigint[])
ORDER BY c.granted_at, c.id
