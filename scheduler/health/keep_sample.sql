-- Keep the figures at one time; the first sample of an hour is marked as hourly.
INSERT INTO status_sample (at, is_hourly, figures)
SELECT
    %(at)s::timestamptz AS at,
    NOT EXISTS (
        SELECT 1
        FROM status_sample AS earlier
        WHERE
            earlier.is_hourly
            AND earlier.at >= date_trunc('hour', %(at)s::timestamptz)
            AND earlier.at <= %(at)s::timestamptz
    ) AS is_hourly,
    %(figures)s::jsonb AS figures
ON CONFLICT (at) DO NOTHING
RETURNING id
