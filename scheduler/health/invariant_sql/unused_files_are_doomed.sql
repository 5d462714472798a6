-- Every file without references is marked for deletion.
SELECT
    file.name,
    'created at ' || file.created_at AS detail
FROM file
WHERE
    file.doomed_at IS NULL
    AND NOT EXISTS (SELECT FROM workunit_file AS input WHERE input.file_id = file.id)
    AND NOT EXISTS (SELECT FROM app_version_file AS part WHERE part.file_id = file.id)
    AND NOT EXISTS (SELECT FROM file_request AS request WHERE request.file_id = file.id)
    -- Files with holds are excluded: a chore of the housekeeper marks them when the holds expire.
    AND NOT EXISTS (SELECT FROM file_hold AS hold WHERE hold.file_id = file.id)
