-- No host has two results of one workunit in progress.
SELECT
    w.name,
    'host ' || r.host_id || ' has in progress: ' || string_agg(r.name, ', ' ORDER BY r.id) AS detail
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE r.server_state = {{ServerState.IN_PROGRESS}}
GROUP BY w.id, r.host_id
HAVING count(*) > 1
