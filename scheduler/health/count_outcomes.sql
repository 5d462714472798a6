-- Adds the uncounted results of some host app versions to the counts of the hour, and sets them to 0.
-- Rows that another transaction has locked are counted by a later run.  A host is counted while it
-- had an error since `since`; at most `max_hosts` hosts are counted, those with most errors first.
WITH due AS MATERIALIZED (
    SELECT
        id,
        host_id,
        app_version_id,
        uncounted_reports,
        uncounted_errors,
        uncounted_invalid
    FROM host_app_version
    WHERE
        id > %(after)s::bigint
        AND (uncounted_reports > 0 OR uncounted_invalid > 0)
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

counted AS (
    UPDATE host_app_version AS record
    SET
        uncounted_reports = 0,
        uncounted_errors = 0,
        uncounted_invalid = 0
    FROM due
    WHERE record.id = due.id
    RETURNING due.*
),

of_versions AS (
    INSERT INTO version_outcomes AS kept (hour, app_version_id, reported, errors, invalid)
    SELECT
        %(hour)s::timestamptz,
        app_version_id,
        sum(uncounted_reports),
        sum(uncounted_errors),
        sum(uncounted_invalid)
    FROM counted
    GROUP BY app_version_id
    ON CONFLICT (hour, app_version_id) DO UPDATE
    SET
        reported = kept.reported + excluded.reported,
        errors = kept.errors + excluded.errors,
        invalid = kept.invalid + excluded.invalid
),

known AS MATERIALIZED (
    SELECT DISTINCT host_id
    FROM host_outcomes
    WHERE
        hour > %(since)s::timestamptz
        AND errors + invalid > 0
),

by_host AS (
    SELECT
        host_id,
        sum(uncounted_reports) AS reported,
        sum(uncounted_errors) AS errors,
        sum(uncounted_invalid) AS invalid
    FROM counted
    GROUP BY host_id
),

added AS (
    SELECT host_id
    FROM by_host
    WHERE
        errors + invalid > 0
        AND NOT EXISTS (SELECT FROM known WHERE known.host_id = by_host.host_id)
    ORDER BY errors + invalid DESC, host_id
    LIMIT greatest(0, %(max_hosts)s::bigint - (SELECT count(*) FROM known))
),

of_hosts AS (
    INSERT INTO host_outcomes AS kept (hour, host_id, reported, errors, invalid)
    SELECT
        %(hour)s::timestamptz,
        host_id,
        reported,
        errors,
        invalid
    FROM by_host
    WHERE
        host_id IN (SELECT known.host_id FROM known)
        OR host_id IN (SELECT added.host_id FROM added)
    ON CONFLICT (hour, host_id) DO UPDATE
    SET
        reported = kept.reported + excluded.reported,
        errors = kept.errors + excluded.errors,
        invalid = kept.invalid + excluded.invalid
)

SELECT
    count(*) AS changed,
    max(id) AS last,
    coalesce(sum(uncounted_reports), 0)::bigint AS reported
FROM counted
