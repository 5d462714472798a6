-- Add credit to locked accounts, in total and by app, with their new averages.
WITH by_app AS (
    INSERT INTO account_app_credit AS kept (account_id, app_id, total, expavg, expavg_at)
    SELECT
        paid.account_id,
        paid.app_id,
        paid.granted,
        paid.expavg_credit,
        %(now)s::timestamptz
    FROM unnest(
        %(account_ids)s::bigint[],
        %(app_ids)s::bigint[],
        %(app_granted)s::numeric[],
        %(app_expavg_credits)s::double precision[]
    ) AS paid (account_id, app_id, granted, expavg_credit)
    ORDER BY paid.account_id, paid.app_id
    ON CONFLICT (account_id, app_id) DO UPDATE
    SET
        total = kept.total + excluded.total,
        expavg = excluded.expavg,
        expavg_at = excluded.expavg_at
)

UPDATE account
SET
    total_credit = account.total_credit + paid.granted,
    expavg_credit = paid.expavg_credit,
    expavg_at = %(now)s::timestamptz
FROM unnest(
    %(ids)s::bigint[],
    %(granted)s::numeric[],
    %(expavg_credits)s::double precision[]
) AS paid (id, granted, expavg_credit)
WHERE account.id = paid.id
