-- One person's wish to keep files until a moment; a later moment of his stands.
INSERT INTO file_hold (file_id, account_id, until)
SELECT
    wanted.file_id,
    %(account_id)s::bigint,
    %(until)s::timestamptz
FROM unnest(%(file_ids)s::bigint[]) AS wanted (file_id)
ORDER BY wanted.file_id
ON CONFLICT (file_id, account_id) DO UPDATE
    SET until = greatest(file_hold.until, excluded.until)
