-- Reads the workunits with unsent results that use input files which the host has (locality).
SELECT DISTINCT input.workunit_id
FROM file AS f
CROSS JOIN LATERAL (
    SELECT use.workunit_id
    FROM workunit_file AS use
    INNER JOIN result AS r ON use.workunit_id = r.workunit_id
    WHERE
        use.file_id = f.id
        AND r.server_state = {{ServerState.UNSENT}}
        AND r.target_kind = {{Target.EVERYBODY}}
        AND r.app_id = ANY(%(app_ids)s::bigint[])
    ORDER BY use.workunit_id
    LIMIT %(most)s::integer
) AS input
WHERE f.name = ANY(%(names)s::text[])
LIMIT %(most)s::integer
