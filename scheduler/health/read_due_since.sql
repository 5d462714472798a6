-- Reads the time since which the oldest work of each daemon has been due, or NULL, in one row.
-- Each subquery uses an index and reads few rows.  The oldest work is the row with the lowest id.  A
-- ledger entry has the time of the move that made it due; in a project without a ledger, it is the
-- report of the results or the end of the workunit.  The bound `created_at` leaves out the days of
-- the ledger before the workunit.
SELECT
    (
        SELECT workunit_wakeup.inserted_at
        FROM workunit_wakeup
        ORDER BY workunit_wakeup.id
        LIMIT 1
    ) AS transitioner,
    least(
        (
            SELECT result.report_deadline
            FROM result
            WHERE
                result.server_state = {{ServerState.IN_PROGRESS}}
                AND result.report_deadline <= %(now)s::timestamptz
            ORDER BY result.report_deadline
            LIMIT 1
        ),
        (
            SELECT min(workunit.transition_at)
            FROM workunit
            WHERE workunit.transition_at <= %(now)s::timestamptz
        )
    ) AS timeout_checker,
    (
        SELECT
            greatest(
                unvalidated.validate_after,
                (
                    SELECT max(result.received_at)
                    FROM result
                    WHERE result.workunit_id = unvalidated.id
                ),
                -- A re-validation makes results due again that were reported long ago.
                (
                    SELECT max(entry.at)
                    FROM ledger_entry AS entry
                    WHERE
                        entry.workunit_id = unvalidated.id
                        AND entry.at >= unvalidated.created_at
                        AND entry.axis = {{Axis.VALIDATION}}
                )
            )
        FROM (
            SELECT
                workunit.id,
                workunit.created_at,
                workunit.validate_after
            FROM workunit
            WHERE
                workunit.need_validate
                AND coalesce(workunit.validate_after, '-infinity') <= %(now)s::timestamptz
                AND NOT EXISTS (
                    SELECT 1
                    FROM science_failure AS parked
                    WHERE
                        parked.stage = 1
                        AND parked.subject_id = workunit.id
                        AND parked.parked_at IS NOT NULL
                )
            ORDER BY workunit.id
            LIMIT 1
        ) AS unvalidated
    ) AS validator,
    (
        SELECT
            greatest(
                unassimilated.assimilate_after,
                coalesce(
                    (
                        SELECT max(entry.at)
                        FROM ledger_entry AS entry
                        WHERE
                            entry.workunit_id = unassimilated.id
                            AND entry.at >= unassimilated.created_at
                            AND entry.axis = {{Axis.ASSIMILATION}}
                    ),
                    (
                        SELECT max(result.received_at)
                        FROM result
                        WHERE result.workunit_id = unassimilated.id
                    )
                )
            )
        FROM (
            SELECT
                workunit.id,
                workunit.created_at,
                workunit.assimilate_after
            FROM workunit
            WHERE
                workunit.assimilate_state = {{AssimilateState.READY}}
                AND coalesce(workunit.assimilate_after, '-infinity') <= %(now)s::timestamptz
                AND NOT EXISTS (
                    SELECT 1
                    FROM science_failure AS parked
                    WHERE
                        parked.stage = 2
                        AND parked.subject_id = workunit.id
                        AND parked.parked_at IS NOT NULL
                )
            ORDER BY workunit.id
            LIMIT 1
        ) AS unassimilated
    ) AS assimilator,
    (
        SELECT greatest(trickle_up.received_at, trickle_up.handle_after)
        FROM trickle_up
        WHERE
            trickle_up.handled_at IS NULL
            AND coalesce(trickle_up.handle_after, '-infinity') <= %(now)s::timestamptz
            AND NOT EXISTS (
                SELECT 1
                FROM science_failure AS parked
                WHERE
                    parked.stage = 3
                    AND parked.subject_id = trickle_up.id
                    AND parked.parked_at IS NOT NULL
            )
        ORDER BY trickle_up.id
        LIMIT 1
    ) AS trickle_handler,
    least(
        (
            SELECT min(file.doomed_at)
            FROM file
            WHERE file.doomed_at <= %(now)s::timestamptz
        ),
        (
            SELECT
                coalesce(
                    (
                        SELECT max(entry.at)
                        FROM ledger_entry AS entry
                        WHERE
                            entry.workunit_id = marked.workunit_id
                            AND entry.at >= marked.created_at
                            AND entry.result_id = marked.id
                            AND entry.axis = {{Axis.RESULT_FILES}}
                    ),
                    marked.received_at
                )
            FROM (
                SELECT
                    result.id,
                    result.workunit_id,
                    result.created_at,
                    result.received_at
                FROM result
                WHERE
                    result.file_delete_state IN (
                        {{FileDeleteState.READY}}, {{FileDeleteState.ERROR}}
                    )
                    AND result.file_delete_after IS NULL
                ORDER BY result.file_delete_after, result.id
                LIMIT 1
            ) AS marked
        ),
        (
            SELECT
                coalesce(
                    (
                        SELECT max(entry.at)
                        FROM ledger_entry AS entry
                        WHERE
                            entry.workunit_id = marked.id
                            AND entry.at >= marked.created_at
                            AND entry.axis = {{Axis.WORKUNIT_FILES}}
                    ),
                    marked.finished_at
                )
            FROM (
                SELECT
                    workunit.id,
                    workunit.created_at,
                    workunit.finished_at
                FROM workunit
                WHERE
                    workunit.file_delete_state IN (
                        {{FileDeleteState.READY}}, {{FileDeleteState.ERROR}}
                    )
                    AND workunit.file_delete_after IS NULL
                ORDER BY workunit.file_delete_after, workunit.id
                LIMIT 1
            ) AS marked
        ),
        -- Deletions that failed, at the time of their next attempt.
        (
            SELECT min(result.file_delete_after)
            FROM result
            WHERE
                result.file_delete_state IN ({{FileDeleteState.READY}}, {{FileDeleteState.ERROR}})
                AND result.file_delete_after <= %(now)s::timestamptz
        ),
        (
            SELECT min(workunit.file_delete_after)
            FROM workunit
            WHERE
                workunit.file_delete_state IN (
                    {{FileDeleteState.READY}}, {{FileDeleteState.ERROR}}
                )
                AND workunit.file_delete_after <= %(now)s::timestamptz
        )
    ) AS file_deleter,
    (
        SELECT
            greatest(
                purgeable.finished_at + %(purge_after)s::interval,
                (
                    SELECT max(entry.at)
                    FROM ledger_entry AS entry
                    WHERE
                        entry.workunit_id = purgeable.id
                        AND entry.at >= purgeable.created_at
                )
            )
        FROM (
            SELECT
                workunit.id,
                workunit.created_at,
                workunit.finished_at
            FROM (
                -- Bounded, because the first workunits may be kept for long.  With OFFSET 0,
                -- PostgreSQL looks up each of them below, and does not read the whole tables.
                SELECT
                    kept.id,
                    kept.created_at,
                    kept.finished_at,
                    kept.transition_at,
                    kept.need_validate,
                    kept.has_children
                FROM workunit AS kept
                WHERE
                    kept.file_delete_state = {{FileDeleteState.DONE}}
                    AND NOT kept.outputs_kept
                ORDER BY kept.id
                LIMIT 1000
            ) AS workunit
            WHERE
                workunit.finished_at <= %(now)s::timestamptz - %(purge_after)s::interval
                AND workunit.transition_at IS NULL
                AND NOT workunit.need_validate
                AND NOT workunit.has_children
                AND NOT EXISTS (
                    SELECT 1
                    FROM workunit_wakeup
                    WHERE workunit_wakeup.workunit_id = workunit.id
                    OFFSET 0
                )
                AND NOT EXISTS (
                    SELECT 1
                    FROM result
                    WHERE
                        result.workunit_id = workunit.id
                        AND (
                            result.server_state <> {{ServerState.OVER}}
                            OR result.file_delete_state <> {{FileDeleteState.DONE}}
                        )
                    OFFSET 0
                )
            ORDER BY workunit.id
            LIMIT 1
        ) AS purgeable
    ) AS purger,
    (
        SELECT min(last.seen_at + chore.every)
        FROM
            unnest(
                %(chores)s::text [], %(intervals)s::interval []
            ) AS chore (heartbeat_name, every)
        CROSS JOIN LATERAL (
            SELECT heartbeat.seen_at
            FROM heartbeat
            WHERE heartbeat.name = chore.heartbeat_name
            OFFSET 0
        ) AS last
        WHERE last.seen_at + chore.every <= %(now)s::timestamptz
    ) AS housekeeper
