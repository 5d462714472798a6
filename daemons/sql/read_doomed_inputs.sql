-- Read the past inputs of workunits that are marked for deletion, to delete them from disk.
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
    -- Written so that the planner does not use the partial index, which it would read completely.
    WHERE file.name = past.input ->> 'name' AND (file.doomed_at IS NULL) IS FALSE
    LIMIT 1
) AS doomed
WHERE w.id = any(%(workunit_ids)s::bigint[])
