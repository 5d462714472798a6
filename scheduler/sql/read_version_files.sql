-- Reads the signed files of all app versions, in their order.
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
INNER JOIN file AS f ON vf.file_id = f.id
ORDER BY vf.app_version_id, vf.position
