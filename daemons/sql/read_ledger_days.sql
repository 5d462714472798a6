-- Read the names of the ledger's partitions, and the creation time of the oldest workunit.
SELECT
    array_agg(part.relname ORDER BY part.relname) AS partitions,
    (
        SELECT w.created_at
        FROM workunit AS w
        ORDER BY w.id
        LIMIT 1
    ) AS oldest
FROM pg_inherits AS link
INNER JOIN pg_class AS part ON link.inhrelid = part.oid
WHERE link.inhparent = 'ledger_entry'::regclass
