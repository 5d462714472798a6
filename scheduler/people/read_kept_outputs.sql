-- How many bytes of outputs are kept for an account, until it retires their batches.
SELECT coalesce(sum(output.nbytes), 0)::bigint AS nbytes
FROM result_file AS output
WHERE
    -- For an array the index is read from leaf to leaf; a join would descend for each workunit.
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
