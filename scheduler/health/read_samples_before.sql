-- Read the newest sample at or before each of several times, if it is not older than `tolerance`.
SELECT
    wanted.at AS wanted_at,
    newest.at,
    newest.figures
FROM unnest(%(times)s::timestamptz[]) AS wanted (at)
CROSS JOIN LATERAL (
    SELECT
        status_sample.at,
        status_sample.figures
    FROM status_sample
    WHERE
        status_sample.at <= wanted.at
        AND status_sample.at >= wanted.at - %(tolerance)s::interval
    ORDER BY status_sample.at DESC
    LIMIT 1
) AS newest
