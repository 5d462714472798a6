-- Which of these results are there and have not lost their files.
SELECT id
FROM result
WHERE id = any(%(ids)s::bigint[]) AND file_delete_state <> 2
