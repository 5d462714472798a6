-- Every reference to an input file belongs to a workunit.
SELECT
    'workunit ' || f.workunit_id AS name,
    'input ' || f.position || ' refers to a workunit that does not exist' AS detail
FROM workunit_file AS f
LEFT JOIN workunit AS w ON f.workunit_id = w.id
WHERE w.id IS NULL
