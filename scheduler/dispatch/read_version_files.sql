-- Reads the signed files of all app versions, in order.  A lateral join looks up each file: for a
-- plain join, a plan that was made early may read the whole table.
SELECT
    vf.app_version_id,
    f.name,
    f.nbytes,
    f.md5,
    vf.open_name,
    vf.main_program,
    vf.executable,
    vf.copy_file,
    vf.signature
FROM app_version_file AS vf
CROSS JOIN LATERAL (
    SELECT
        name,
        nbytes,
        md5
    FROM file
    WHERE id = vf.file_id
    LIMIT 1
) AS f
ORDER BY vf.app_version_id, vf.position
