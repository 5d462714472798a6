-- Keeps the credit of each active account whose credit differs from its newest sample.
INSERT INTO credit_sample (kind, holder_id, day, total_credit)
SELECT
    1 AS kind,
    account.id,
    %(day)s::date AS day,
    account.total_credit
FROM account
LEFT JOIN LATERAL (
    SELECT sample.total_credit
    FROM credit_sample AS sample
    WHERE sample.kind = 1 AND sample.holder_id = account.id
    ORDER BY sample.day DESC
    LIMIT 1
) AS newest ON TRUE
WHERE
    account.is_active
    AND account.total_credit <> coalesce(newest.total_credit, 0)
ON CONFLICT (kind, holder_id, day) DO NOTHING
