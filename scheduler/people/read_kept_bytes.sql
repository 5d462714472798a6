-- Sums the bytes of the files that an account holds (`file_hold`) and of its workunits' inputs.
SELECT coalesce(sum(file.nbytes), 0)::bigint AS nbytes
FROM file
WHERE
    -- Files on other servers are excluded.
    file.urls = ''
    AND file.id IN (
        SELECT file_hold.file_id
        FROM file_hold
        WHERE file_hold.account_id = %(account_id)s::bigint
        UNION
        SELECT input.file_id
        FROM batch
        INNER JOIN workunit ON workunit.batch_id = batch.id
        INNER JOIN workunit_file AS input ON input.workunit_id = workunit.id
        WHERE batch.submitter_id = %(account_id)s::bigint
    )
