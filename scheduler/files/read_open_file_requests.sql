-- Locks and reads a host's open file requests with their files; skips requests locked by others.
SELECT
    q.id,
    q.kind,
    q.file_name,
    q.file_id,
    q.created_at,
    q.sent_at,
    f.nbytes,
    f.md5
FROM file_request AS q
LEFT JOIN file AS f ON q.file_id = f.id
WHERE
    q.host_id = %(host_id)s::bigint
    AND q.state < 2
ORDER BY q.id
LIMIT %(limit)s::bigint
FOR NO KEY UPDATE OF q SKIP LOCKED
