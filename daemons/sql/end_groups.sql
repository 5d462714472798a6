-- Give locked groups that are complete their answer, which is no result, and set the end of all.
-- The statement that writes all verdicts changes the other states, and writes the moves.
UPDATE workunit AS w
SET
    canonical_result_id = CASE WHEN ended.is_complete THEN {{NO_RESULT}} END,
    finished_at = %(now)s::timestamptz
FROM unnest(%(ids)s::bigint[], %(completions)s::boolean[]) AS ended (id, is_complete)
WHERE
    w.id = ended.id
    AND w.is_group
    AND w.canonical_result_id IS NULL
    AND w.error_mask = 0
