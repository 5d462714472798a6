-- Sums the bytes of outputs that are kept until the account retires their batches.
SELECT coalesce(sum(output.nbytes), 0)::bigint AS nbytes
FROM result_file AS output
WHERE
    -- An array makes one ordered index scan; a join would search the index per workunit.
    output.result_id = any(
        array(
            SELECT workunit.canonical_result_id
            FROM batch
            INNER JOIN workunit ON workunit.batch_id = batch.id
            WHERE
                batch.submitter_id = %(account_id)s::bigint
                AND batch.keep_outputs
                AND batch.retired_at IS NULL
                AND workunit.outputs_kept
                AND workunit.canonical_result_id IS NOT NULL
        )
    )
