-- Reads the workunits of one class of computers that count_unsent_by_class counts, oldest first.
SELECT
    w.id,
    w.name,
    count(*) AS results,
    min(page.created_at) AS oldest_at
FROM (
    SELECT
        r.workunit_id,
        r.created_at
    FROM result AS r
    WHERE r.app_id = %(app_id)s::bigint AND r.server_state = {{ServerState.UNSENT}}
    ORDER BY r.target_kind, r.target_id, r.priority # -1, r.workunit_id
    LIMIT %(limit)s::bigint
) AS page
INNER JOIN workunit AS w ON page.workunit_id = w.id
WHERE w.hr_class = %(hr_class)s::integer
GROUP BY w.id
ORDER BY oldest_at, w.id
LIMIT %(shown)s::bigint
