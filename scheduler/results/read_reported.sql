-- Reads the facts about reported results that are needed to look up their output files.
SELECT
    r.id,
    r.name,
    r.workunit_id,
    r.account_id,
    w.outputs
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE r.name = ANY(%(names)s::text[])
