-- Releases the kept outputs of a chunk of a batch's workunits: from then on, the transitioner
-- decides when files are deleted.
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
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM kept
)

UPDATE workunit
SET outputs_kept = FALSE
FROM kept
WHERE workunit.id = kept.id
RETURNING workunit.id
