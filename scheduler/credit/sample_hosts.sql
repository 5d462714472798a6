-- Keeps the credit of each computer of an active account whose credit differs from its newest sample.
INSERT INTO credit_sample (kind, holder_id, day, total_credit)
SELECT
    2 AS kind,
    host.id,
    %(day)s::date AS day,
    host.total_credit
FROM host
INNER JOIN account ON host.account_id = account.id
LEFT JOIN LATERAL (
    SELECT sample.total_credit
    FROM credit_sample AS sample
    WHERE sample.kind = 2 AND sample.holder_id = host.id
    ORDER BY sample.day DESC
    LIMIT 1
) AS newest ON TRUE
WHERE
    account.is_active
    AND host.merged_into_id IS NULL
    AND host.total_credit <> coalesce(newest.total_credit, 0)
ON CONFLICT (kind, holder_id, day) DO NOTHING
