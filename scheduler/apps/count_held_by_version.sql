-- Counts the results in progress of app versions and their hosts, among those with the earliest
-- deadlines; `examined` is the number of all results in progress that were read.
SELECT
    count(*) AS examined,
    count(*) FILTER (WHERE page.app_version_id = any(%(version_ids)s::bigint[])) AS results,
    count(DISTINCT page.host_id) FILTER (
        WHERE page.app_version_id = any(%(version_ids)s::bigint[])
    ) AS hosts
FROM (
    SELECT
        host_id,
        app_version_id
    FROM result
    WHERE
        server_state = {{ServerState.IN_PROGRESS}}
        AND report_deadline > '-infinity'::timestamptz
    ORDER BY report_deadline
    LIMIT %(limit)s::bigint
) AS page
