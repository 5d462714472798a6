-- Awards a badge to the active accounts that are within the bounds of its rule.
INSERT INTO account_badge (badge_id, account_id, created_at)
SELECT
    %(badge_id)s::bigint,
    account.id,
    %(now)s::timestamptz
FROM account
WHERE
    account.is_active
    AND account.total_credit > 0
    AND account.total_credit >= %(min_total)s::numeric
    AND account.expavg_credit >= %(min_recent)s::float8
    AND account.created_at <= %(created_until)s::timestamptz
    AND NOT EXISTS (
        SELECT 1
        FROM account_badge AS award
        WHERE award.badge_id = %(badge_id)s::bigint AND award.account_id = account.id
    )
ON CONFLICT (badge_id, account_id) DO NOTHING
