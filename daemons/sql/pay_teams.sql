-- Add credit to locked teams, with their new averages.
UPDATE team
SET
    total_credit = team.total_credit + paid.granted,
    expavg_credit = paid.expavg_credit,
    expavg_at = %(now)s::timestamptz
FROM unnest(
    %(ids)s::bigint[],
    %(granted)s::numeric[],
    %(expavg_credits)s::double precision[]
) AS paid (id, granted, expavg_credit)
WHERE team.id = paid.id
