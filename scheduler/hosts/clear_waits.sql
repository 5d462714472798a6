-- Clears the numbers of results sent today, and reduced quotas, of app versions on locked hosts.
-- To exclude deadlocks with RPCs, the hosts are locked before, and the records in ascending order of
-- the pairs, as in update_hosts.  A quota of 0 means that it was never changed.
WITH locked AS (
    SELECT
        record.id,
        coalesce(app.daily_quota, %(daily_quota)s::integer) AS daily_quota
    FROM host_app_version AS record
    INNER JOIN app_version AS version ON record.app_version_id = version.id
    INNER JOIN app ON version.app_id = app.id
    WHERE
        record.host_id = any(%(host_ids)s::bigint[])
        AND (
            (record.quota_day = %(today)s::date AND record.results_today > 0)
            OR (
                record.max_results_per_day > 0
                AND record.max_results_per_day
                < coalesce(app.daily_quota, %(daily_quota)s::integer)
            )
        )
    ORDER BY record.host_id, record.app_version_id
    FOR NO KEY UPDATE OF record
)

UPDATE host_app_version AS record
SET
    results_today = 0,
    max_results_per_day = CASE
        WHEN record.max_results_per_day < locked.daily_quota THEN 0
        ELSE record.max_results_per_day
    END
FROM locked
WHERE record.id = locked.id
RETURNING record.host_id
