-- Counts the workunits of batches by status (work.progress.status), with index-only scans.
-- Results are looked up by an array of workunit ids, which takes one scan of the index leaves; a
-- join would search the index for each workunit.
SELECT
    asked.batch_id,
    counted.done,
    counted.failed,
    of_free.validating + of_held.validating AS validating,
    of_free.in_progress + of_held.in_progress AS in_progress,
    coalesce(cardinality(counted.free_ids), 0)
    - of_free.validating - of_free.in_progress AS unsent,
    coalesce(cardinality(counted.held_ids), 0)
    - of_held.validating - of_held.in_progress AS waiting,
    counted.lately
FROM unnest(%(batch_ids)s::bigint[]) AS asked (batch_id)
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE judged.is_done) AS done,
        count(*) FILTER (WHERE judged.is_failed) AS failed,
        count(*) FILTER (WHERE judged.finished_at > %(lately)s::timestamptz) AS lately,
        array_agg(judged.id) FILTER (WHERE judged.is_open AND NOT judged.is_held) AS free_ids,
        array_agg(judged.id) FILTER (WHERE judged.is_open AND judged.is_held) AS held_ids
    FROM (
        SELECT
            workunit.id,
            workunit.finished_at,
            workunit.canonical_result_id IS NOT NULL AS is_done,
            workunit.canonical_result_id IS NULL AND workunit.error_mask <> 0 AS is_failed,
            workunit.canonical_result_id IS NULL AND workunit.error_mask = 0 AS is_open,
            workunit.release_state <> {{ReleaseState.RELEASED}}
            OR coalesce(workunit.start_after > %(now)s::timestamptz, FALSE) AS is_held
        FROM workunit
        WHERE
            workunit.batch_id = asked.batch_id
            AND workunit.retried_as IS NULL
    ) AS judged
) AS counted
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE by_workunit.most = 2) AS validating,
        count(*) FILTER (WHERE by_workunit.most = 1) AS in_progress
    FROM (
        SELECT
            max(
                CASE
                    WHEN
                        result.outcome = {{Outcome.SUCCESS}}
                        AND result.validate_state IN (
                            {{ValidateState.INIT}},
                            {{ValidateState.VALID}},
                            {{ValidateState.INCONCLUSIVE}}
                        )
                        THEN 2
                    WHEN result.server_state = {{ServerState.IN_PROGRESS}} THEN 1
                END
            ) AS most
        FROM result
        WHERE result.workunit_id = any(counted.free_ids)
        GROUP BY result.workunit_id
    ) AS by_workunit
) AS of_free
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE by_workunit.most = 2) AS validating,
        count(*) FILTER (WHERE by_workunit.most = 1) AS in_progress
    FROM (
        SELECT
            max(
                CASE
                    WHEN
                        result.outcome = {{Outcome.SUCCESS}}
                        AND result.validate_state IN (
                            {{ValidateState.INIT}},
                            {{ValidateState.VALID}},
                            {{ValidateState.INCONCLUSIVE}}
                        )
                        THEN 2
                    WHEN result.server_state = {{ServerState.IN_PROGRESS}} THEN 1
                END
            ) AS most
        FROM result
        WHERE result.workunit_id = any(counted.held_ids)
        GROUP BY result.workunit_id
    ) AS by_workunit
) AS of_held
