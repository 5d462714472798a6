-- Gives up one person's holds on files; those that were renewed meanwhile last.
DELETE FROM file_hold
WHERE
    account_id = %(account_id)s::bigint
    AND file_id = any(%(ids)s::bigint[])
    AND until = %(until)s::timestamptz
RETURNING file_id
