-- Counts a batch's open workunits that must not be sent yet, by cause, and those in progress.
-- An array of workunit ids makes the search of results one ordered index scan.
SELECT
    counted.held,
    counted.following,
    counted.depending,
    counted.not_yet,
    counted.starts_at,
    computed.computing,
    computed.due_at
FROM (
    SELECT
        count(*) FILTER (WHERE judged.why = 'held') AS held,
        count(*) FILTER (WHERE judged.why = 'following') AS following,
        count(*) FILTER (WHERE judged.why = 'depending') AS depending,
        count(*) FILTER (WHERE judged.why = 'not_yet') AS not_yet,
        min(judged.start_after) FILTER (WHERE judged.why = 'not_yet') AS starts_at,
        array_agg(judged.id) AS open_ids
    FROM (
        SELECT
            workunit.id,
            workunit.start_after,
            CASE
                WHEN workunit.release_state = {{ReleaseState.HELD}} THEN 'held'
                WHEN workunit.waits_for_batch THEN 'following'
                WHEN workunit.pending_dependency_count > 0 THEN 'depending'
                WHEN workunit.start_after > %(now)s::timestamptz THEN 'not_yet'
            END AS why
        FROM workunit
        WHERE
            workunit.batch_id = %(batch_id)s::bigint
            AND workunit.canonical_result_id IS NULL
            AND workunit.error_mask = 0
    ) AS judged
) AS counted
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT result.workunit_id) AS computing,
        min(result.report_deadline) AS due_at
    FROM result
    WHERE
        result.workunit_id = any(counted.open_ids)
        AND result.server_state = {{ServerState.IN_PROGRESS}}
) AS computed
