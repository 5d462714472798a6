-- Reads the files with expired holds, the earliest expired first.
SELECT file_id AS id
FROM file_hold
WHERE until <= %(now)s::timestamptz
ORDER BY until
LIMIT %(limit)s::bigint
