-- Reads the input files of assigned workunits, in the order of each workunit.
SELECT
    wf.workunit_id,
    f.name,
    f.nbytes,
    f.md5,
    wf.open_name,
    wf.copy_file,
    wf.sticky,
    f.urls
FROM workunit_file AS wf
INNER JOIN file AS f ON wf.file_id = f.id
WHERE wf.workunit_id = ANY(%(workunit_ids)s::bigint[])
ORDER BY wf.workunit_id, wf.position
