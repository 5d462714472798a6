-- Count the rows of a day in the default partition of the ledger, up to a limit.
SELECT count(*)
FROM (
    SELECT 1
    FROM ledger_entry
    WHERE
        at >= %(start)s::timestamptz AND at < %(end)s::timestamptz
        AND tableoid = 'ledger_entry_default'::regclass
    LIMIT %(limit)s::bigint
) AS moves
