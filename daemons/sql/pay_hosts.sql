-- Add credit to locked hosts, with their new averages.
UPDATE host
SET
    total_credit = host.total_credit + paid.granted,
    expavg_credit = paid.expavg_credit,
    expavg_at = paid.expavg_at,
    turnaround_seconds = paid.turnaround_seconds
FROM unnest(
    %(ids)s::bigint[],
    %(granted)s::numeric[],
    %(expavg_credits)s::double precision[],
    %(expavg_ats)s::timestamptz[],
    %(turnarounds)s::double precision[]
) AS paid (id, granted, expavg_credit, expavg_at, turnaround_seconds)
WHERE host.id = paid.id
