-- Reads a page of a batch's done and failed workunits, with the outputs of their canonical results.
-- With `since`, only workunits whose finished_at is later or NULL.
SELECT
    workunit.id,
    workunit.name,
    workunit.error_mask,
    workunit.meta,
    workunit.outputs,
    workunit.finished_at,
    workunit.canonical_result_id,
    (
        SELECT
            jsonb_agg(
                jsonb_build_array(
                    result_file.position, result_file.name, result_file.nbytes, result_file.sha256
                )
                ORDER BY result_file.position
            )
        FROM result_file
        WHERE result_file.result_id = workunit.canonical_result_id
    ) AS files
FROM workunit
WHERE
    workunit.batch_id = %(batch_id)s::bigint
    AND workunit.id > %(after_id)s::bigint
    AND (workunit.canonical_result_id IS NOT NULL OR workunit.error_mask <> 0)
    AND (
        %(since)s::timestamptz IS NULL
        OR workunit.finished_at IS NULL
        OR workunit.finished_at > %(since)s::timestamptz
    )
    AND (%(only_id)s::bigint IS NULL OR workunit.id = %(only_id)s::bigint)
ORDER BY workunit.id
LIMIT %(limit)s::integer
