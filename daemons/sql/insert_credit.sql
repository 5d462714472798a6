-- Grant credit for valid results, with the account's current team; results that were already paid
-- under the same rule are skipped.
INSERT INTO credit_entry (
    result_id, rule, account_id, host_id, team_id, app_id, amount, granted_at
)
SELECT
    granted.result_id,
    %(rule)s::text,
    granted.account_id,
    granted.host_id,
    account.team_id,
    granted.app_id,
    granted.amount,
    %(now)s::timestamptz
FROM unnest(
    %(result_ids)s::bigint[],
    %(account_ids)s::bigint[],
    %(host_ids)s::bigint[],
    %(app_ids)s::bigint[],
    %(amounts)s::numeric[]
) AS granted (result_id, account_id, host_id, app_id, amount)
INNER JOIN account ON granted.account_id = account.id
-- Before an id is drawn; see scheduler/credit/app_credits.py.
CROSS JOIN (
    SELECT pg_advisory_xact_lock_shared(hashtextextended('credit entries', 0))
) AS entry_lock
ORDER BY granted.result_id
ON CONFLICT (result_id, rule) DO NOTHING
RETURNING result_id, team_id
