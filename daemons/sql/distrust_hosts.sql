-- A host that did not reply starts anew to be trusted, and is given less of that app version a day.
WITH late AS (
    SELECT
        host_id,
        app_version_id,
        count(*) AS results
    FROM unnest(%(host_ids)s::bigint[], %(app_version_ids)s::bigint[]) AS u (host_id, app_version_id)
    GROUP BY host_id, app_version_id
),

locked AS (
    SELECT
        known.id,
        late.results
    FROM host_app_version AS known
    INNER JOIN late ON known.host_id = late.host_id AND known.app_version_id = late.app_version_id
    ORDER BY known.host_id, known.app_version_id
    FOR NO KEY UPDATE OF known
)

UPDATE host_app_version AS known
SET
    consecutive_valid = 0,
    max_results_per_day = CASE
        WHEN known.max_results_per_day > 0
            THEN greatest(1, known.max_results_per_day - locked.results)
        ELSE known.max_results_per_day
    END
FROM locked
WHERE known.id = locked.id
