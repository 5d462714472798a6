-- Reads which of these hosts, accounts and teams exist, and whether hosts are merged or denied.
SELECT
    'host' AS kind,
    id,
    merged_into_id,
    denied
FROM host
WHERE id = any(%(hosts)s::bigint[])
UNION ALL
SELECT
    'account' AS kind,
    id,
    NULL AS merged_into_id,
    FALSE AS denied
FROM account
WHERE id = any(%(accounts)s::bigint[])
UNION ALL
SELECT
    'team' AS kind,
    id,
    NULL AS merged_into_id,
    FALSE AS denied
FROM team
WHERE id = any(%(teams)s::bigint[]) AND deleted_at IS NULL
