-- Keeps the credit of all accounts together; this row also marks the day as sampled.
INSERT INTO credit_sample (kind, holder_id, day, total_credit)
SELECT
    0 AS kind,
    0 AS holder_id,
    %(day)s::date AS day,
    coalesce(sum(account.total_credit), 0) AS total_credit
FROM account
ON CONFLICT (kind, holder_id, day) DO NOTHING
