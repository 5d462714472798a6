-- Drop locked workunits' references to their input files; the files' names, sizes and digests are
-- kept in the workunit, for the archive and the API.
WITH gone AS (
    DELETE FROM workunit_file
    WHERE workunit_id = any(%(workunit_ids)s::bigint[])
    RETURNING workunit_id, file_id, position, open_name
),

listed AS (
    SELECT
        gone.workunit_id,
        jsonb_agg(
            jsonb_build_object(
                'open_name', gone.open_name,
                'name', f.name,
                'nbytes', f.nbytes,
                'sha256', f.sha256
            )
            ORDER BY gone.position
        ) AS files
    FROM gone
    INNER JOIN file AS f ON gone.file_id = f.id
    GROUP BY gone.workunit_id
)

UPDATE workunit AS w
SET past_inputs = listed.files
FROM listed
WHERE w.id = listed.workunit_id
