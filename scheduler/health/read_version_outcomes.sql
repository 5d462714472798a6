-- Reads the counted results by app version since a time.
SELECT
    app_version_id,
    sum(reported)::bigint AS reported,
    sum(errors)::bigint AS errors,
    sum(invalid)::bigint AS invalid
FROM version_outcomes
WHERE hour >= %(since)s::timestamptz
GROUP BY app_version_id
