-- Why open workunits of a batch may not be sent yet, and until when those are due that hosts have.
SELECT
    count(*) FILTER (WHERE judged.why = 'held') AS held,
    count(*) FILTER (WHERE judged.why = 'following') AS following,
    count(*) FILTER (WHERE judged.why = 'depending') AS depending,
    count(*) FILTER (WHERE judged.why = 'not_yet') AS not_yet,
    min(judged.start_after) FILTER (WHERE judged.why = 'not_yet') AS starts_at,
    count(*) FILTER (WHERE judged.due_at IS NOT NULL) AS computing,
    min(judged.due_at) AS due_at
FROM (
    SELECT
        workunit.start_after,
        CASE
            WHEN workunit.release_state = 2 THEN 'held'
            WHEN workunit.pending_dependency_count > 0 AND batch.after_id IS NOT NULL
                THEN 'following'
            WHEN workunit.pending_dependency_count > 0 THEN 'depending'
            WHEN workunit.start_after > %(now)s::timestamptz THEN 'not_yet'
        END AS why,
        held.due_at
    FROM workunit
    INNER JOIN batch ON workunit.batch_id = batch.id
    LEFT JOIN (
        SELECT
            result.workunit_id,
            min(result.report_deadline) AS due_at
        FROM result
        WHERE
            result.server_state = 4
            AND result.workunit_id = any(
                array(
                    SELECT open.id
                    FROM workunit AS open
                    WHERE
                        open.batch_id = %(batch_id)s::bigint
                        AND open.canonical_result_id IS NULL
                        AND open.error_mask = 0
                )
            )
        GROUP BY result.workunit_id
    ) AS held ON workunit.id = held.workunit_id
    WHERE
        workunit.batch_id = %(batch_id)s::bigint
        AND workunit.canonical_result_id IS NULL
        AND workunit.error_mask = 0
) AS judged
