-- Counts the workunits of the first unsent results of apps, in the order in which they are sent, by
-- the version and the number of the version to which they are bound.
SELECT
    page.app_id,
    w.app_version_id,
    w.app_version_num,
    count(*) AS results,
    count(DISTINCT w.id) AS workunits
FROM unnest(%(app_ids)s::bigint[]) AS chosen (app_id)
CROSS JOIN LATERAL (
    SELECT
        r.app_id,
        r.workunit_id
    FROM result AS r
    WHERE r.app_id = chosen.app_id AND r.server_state = {{ServerState.UNSENT}}
    ORDER BY r.target_kind, r.target_id, r.priority # -1, r.workunit_id
    LIMIT %(limit)s::bigint
) AS page
INNER JOIN workunit AS w ON page.workunit_id = w.id
GROUP BY page.app_id, w.app_version_id, w.app_version_num
