-- Add credit to locked accounts, with their new averages.
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
