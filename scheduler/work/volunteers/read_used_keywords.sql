-- Reads the different texts of keywords of the newest workunits.  The range of ids limits the rows to read, because
-- keywords have no index.  The condition id > 0 shows the planner that the index of ids finds the maximum.
SELECT DISTINCT w.keywords
FROM workunit AS w
WHERE
    w.id > (SELECT max(newest.id) FROM workunit AS newest WHERE newest.id > 0) - %(count)s::bigint
    AND w.keywords <> ''
LIMIT %(max_texts)s::integer
