-- Marks locked files without references for deletion.  The lock is an earlier statement, so that
-- this one sees all committed references.
UPDATE file
SET doomed_at = %(now)s::timestamptz
WHERE
    file.id = any(%(ids)s::bigint[])
    -- This form keeps the planner from reading the whole partial index.
    AND (file.doomed_at IS NULL) IS TRUE
    AND NOT EXISTS (SELECT FROM workunit_file AS input WHERE input.file_id = file.id)
    AND NOT EXISTS (SELECT FROM app_version_file AS part WHERE part.file_id = file.id)
    AND NOT EXISTS (SELECT FROM file_request AS request WHERE request.file_id = file.id)
    AND NOT EXISTS (
        SELECT FROM file_hold AS hold
        WHERE hold.file_id = file.id AND hold.until > %(now)s::timestamptz
    )
