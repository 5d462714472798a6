-- Reads what must be known of reported results before their output files are looked up.
SELECT
    r.id,
    r.name,
    r.workunit_id,
    r.account_id,
    w.outputs
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE r.name = ANY(%(names)s::text[])
