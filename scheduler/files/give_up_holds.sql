-- Deletes an account's holds on files if they still end at `until`; renewed holds are kept.
DELETE FROM file_hold
WHERE
    account_id = %(account_id)s::bigint
    AND file_id = any(%(ids)s::bigint[])
    AND until = %(until)s::timestamptz
RETURNING file_id
