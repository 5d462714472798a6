-- Inserts an account's holds on locked files, or extends existing holds.
INSERT INTO file_hold (file_id, account_id, until)
SELECT
    file_id,
    %(account_id)s::bigint,
    %(until)s::timestamptz
FROM unnest(%(ids)s::bigint[]) AS listed (file_id)
ORDER BY file_id
ON CONFLICT (file_id, account_id) DO UPDATE
    SET until = greatest(file_hold.until, excluded.until)
RETURNING file_id, xmax = 0 AS made
