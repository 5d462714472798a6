-- Lists an account and its computers for statistics sites, if the export has contained them.
INSERT INTO statistics_deletion (kind, number, cpid, deleted_at)
SELECT
    %(account_kind)s::smallint,
    account.id,
    %(cpid)s::text,
    %(now)s::timestamptz
FROM account
WHERE
    account.id = %(account_id)s::bigint
    -- Credit that was exported may have been revoked since.
    AND (
        account.total_credit > 0
        OR EXISTS (SELECT FROM credit_entry AS e WHERE e.account_id = account.id)
    )
UNION ALL
SELECT
    %(host_kind)s::smallint,
    host.id,
    host.host_cpid,
    %(now)s::timestamptz
FROM host
WHERE
    host.account_id = %(account_id)s::bigint
    AND (
        host.total_credit > 0
        OR EXISTS (SELECT FROM credit_entry AS e WHERE e.host_id = host.id)
    )
    -- A deleted host refers to itself, and was listed when it was deleted.
    AND host.merged_into_id IS DISTINCT FROM host.id
ON CONFLICT (kind, number) DO UPDATE
SET
    cpid = excluded.cpid,
    deleted_at = excluded.deleted_at
