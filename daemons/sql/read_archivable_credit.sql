-- Read the credit entries of results: credit that was granted or taken back.
SELECT c.* -- noqa: AM04
FROM credit_entry AS c
WHERE c.result_id = any(%(result_ids)s::bigint[])
ORDER BY c.granted_at, c.id
