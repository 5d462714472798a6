-- No file that is marked for deletion has a reference.
SELECT
    file.name,
    'marked for deletion at ' || file.doomed_at AS detail
FROM file
WHERE
    file.doomed_at IS NOT NULL
    AND (
        EXISTS (SELECT FROM workunit_file AS input WHERE input.file_id = file.id)
        OR EXISTS (SELECT FROM app_version_file AS part WHERE part.file_id = file.id)
        OR EXISTS (SELECT FROM file_request AS request WHERE request.file_id = file.id)
        OR EXISTS (
            SELECT FROM file_hold AS hold
            WHERE hold.file_id = file.id AND hold.until > greatest(file.doomed_at, now())
        )
    )
