-- Every result has the app of its workunit.
SELECT
    r.name,
    'app ' || r.app_id || ', app of the workunit ' || w.app_id AS detail
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE r.app_id <> w.app_id
