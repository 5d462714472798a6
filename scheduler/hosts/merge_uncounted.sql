-- Adds the uncounted results of a host that will be merged to those of the host that is kept.
INSERT INTO host_app_version AS kept (
    host_id, app_version_id, uncounted_reports, uncounted_errors, uncounted_invalid
)
SELECT
    %(kept_id)s::bigint,
    app_version_id,
    uncounted_reports,
    uncounted_errors,
    uncounted_invalid
FROM host_app_version
WHERE
    host_id = %(merged_id)s::bigint
    AND (uncounted_reports > 0 OR uncounted_invalid > 0)
ORDER BY app_version_id
ON CONFLICT (host_id, app_version_id) DO UPDATE
SET
    uncounted_reports = kept.uncounted_reports + excluded.uncounted_reports,
    uncounted_errors = kept.uncounted_errors + excluded.uncounted_errors,
    uncounted_invalid = kept.uncounted_invalid + excluded.uncounted_invalid
