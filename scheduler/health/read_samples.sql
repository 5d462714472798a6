-- Read one sample of each step since `since`, oldest first, in which the newest sample is included.
SELECT DISTINCT ON (date_bin(%(step)s::interval, at, 'epoch'))
    at,
    figures
FROM status_sample
WHERE
    at >= %(since)s::timestamptz
    AND (%(with_minutes)s::boolean OR is_hourly)
ORDER BY date_bin(%(step)s::interval, at, 'epoch'), at DESC
