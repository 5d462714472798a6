-- Read files marked for deletion among the former inputs of workunits, to delete them from disk.
-- Each file is looked up separately, because a join would read all files.
SELECT
    w.id AS workunit_id,
    doomed.id,
    doomed.name
FROM workunit AS w
CROSS JOIN LATERAL jsonb_array_elements(w.past_inputs) AS past (input)
CROSS JOIN LATERAL (
    SELECT
        file.id,
        file.name
    FROM file
    -- This form prevents the use of the partial index, which the planner would read completely.
    WHERE file.name = past.input ->> 'name' AND (file.doomed_at IS NULL) IS FALSE
    LIMIT 1
) AS doomed
WHERE w.id = any(%(workunit_ids)s::bigint[])
