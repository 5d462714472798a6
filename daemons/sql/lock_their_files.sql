-- Lock the input files of locked workunits against submissions and other deleters, in ascending id.
SELECT id
FROM file
WHERE
    id IN (
        SELECT f.file_id
        FROM workunit_file AS f
        WHERE f.workunit_id = any(%(workunit_ids)s::bigint[])
    )
ORDER BY id
FOR UPDATE
