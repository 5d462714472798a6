-- Counts the first unsent results of apps, in the order in which they are sent, by the class of
-- computers to which their workunit is bound.
SELECT
    page.app_id,
    w.hr_class,
    count(*) AS results,
    count(DISTINCT w.id) AS workunits,
    min(page.created_at) AS oldest_at
FROM unnest(%(app_ids)s::bigint[]) AS chosen (app_id)
CROSS JOIN LATERAL (
    SELECT
        r.app_id,
        r.workunit_id,
        r.created_at
    FROM result AS r
    WHERE r.app_id = chosen.app_id AND r.server_state = {{ServerState.UNSENT}}
    ORDER BY r.target_kind, r.target_id, r.priority # -1, r.workunit_id
    LIMIT %(limit)s::bigint
) AS page
INNER JOIN workunit AS w ON page.workunit_id = w.id
GROUP BY page.app_id, w.hr_class
ORDER BY page.app_id, w.hr_class
