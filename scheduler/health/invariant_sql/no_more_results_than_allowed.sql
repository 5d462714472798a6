-- No workunit has more results than its max_total_results.
SELECT
    w.name,
    count(*) || ' results, at most ' || w.max_total_results AS detail
FROM workunit AS w
INNER JOIN result AS r ON w.id = r.workunit_id
-- A broadcast workunit has a result for every host that requested it.
WHERE NOT w.broadcast
GROUP BY w.id
HAVING count(*) > w.max_total_results
