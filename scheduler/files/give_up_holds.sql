-- Deletes an account's holds on files, except holds that were renewed since.
DELETE FROM file_hold
WHERE
    account_id = %(account_id)s::bigint
    AND file_id = any(%(ids)s::bigint[])
    AND until = %(until)s::timestamptz
RETURNING file_id
