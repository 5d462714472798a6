-- Files that somebody held, and holds no more, the longest past first.
SELECT file_id AS id
FROM file_hold
WHERE until <= %(now)s::timestamptz
ORDER BY until
LIMIT %(limit)s::bigint
