-- Adds the credit by app of a merged host to that of the kept host.
WITH merged AS (
    DELETE FROM host_app_credit
    WHERE host_id = %(merged_id)s::bigint
    RETURNING app_id, total, expavg, expavg_at
)

INSERT INTO host_app_credit AS kept (host_id, app_id, total, expavg, expavg_at)
SELECT
    %(kept_id)s::bigint,
    app_id,
    total,
    expavg,
    expavg_at
FROM merged
ORDER BY app_id
ON CONFLICT (host_id, app_id) DO UPDATE
SET
    total = kept.total + excluded.total,
    -- As for the average of the host, the times of both averages are taken as equal.
    expavg = kept.expavg + excluded.expavg,
    expavg_at = greatest(kept.expavg_at, excluded.expavg_at)
