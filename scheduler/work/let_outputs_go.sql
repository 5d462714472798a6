-- Some of a batch's workunits whose answers were kept: from now on the law says when files go.
WITH kept AS (
    SELECT id
    FROM workunit
    WHERE
        batch_id = %(batch_id)s::bigint
        AND id > %(after_id)s::bigint
        AND outputs_kept
    ORDER BY id
    LIMIT %(limit)s::integer
    FOR NO KEY UPDATE
)

UPDATE workunit
SET
    outputs_kept = FALSE,
    transition_at = %(now)s::timestamptz
FROM kept
WHERE workunit.id = kept.id
RETURNING workunit.id
