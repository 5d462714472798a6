-- Count the newest refusals since `since` by reason and app; at most `limit` refusals are read.
WITH recent AS (
    SELECT
        reason,
        app_id
    FROM refusal
    WHERE at >= %(since)s::timestamptz
    ORDER BY at DESC
    LIMIT %(limit)s::bigint
)

SELECT
    recent.reason,
    app.name AS app,
    count(*) AS refusals
FROM recent
INNER JOIN app ON recent.app_id = app.id
GROUP BY recent.reason, app.name
ORDER BY refusals DESC, recent.reason, app.name
