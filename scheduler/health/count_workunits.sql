-- Counts the workunits of each app by station, and the purged workunits, with one scan.
SELECT
    app.name AS app,
    app.generator <> '' AND NOT app.deprecated AS has_generator,
    coalesce(counted.in_progress, 0) AS in_progress,
    coalesce(counted.waiting_for_validation, 0) AS waiting_for_validation,
    coalesce(counted.waiting_for_assimilation, 0) AS waiting_for_assimilation,
    coalesce(counted.waiting_for_deletion, 0) AS waiting_for_deletion,
    coalesce(counted.purgeable, 0) AS purgeable,
    coalesce(counted.done, 0) AS done,
    coalesce(counted.failed, 0) AS failed,
    coalesce(counted.due, 0) AS due,
    coalesce(purged.done, 0) AS purged_done,
    coalesce(purged.failed, 0) AS purged_failed
FROM app
LEFT JOIN (
    SELECT
        workunit.app_id,
        count(*) FILTER (
            WHERE
                workunit.assimilate_state = {{AssimilateState.INIT}}
                AND NOT workunit.need_validate
        ) AS in_progress,
        count(*) FILTER (
            WHERE workunit.assimilate_state = {{AssimilateState.INIT}} AND workunit.need_validate
        ) AS waiting_for_validation,
        count(*) FILTER (
            WHERE workunit.assimilate_state = {{AssimilateState.READY}}
        ) AS waiting_for_assimilation,
        count(*) FILTER (
            WHERE
                workunit.assimilate_state = {{AssimilateState.DONE}}
                AND workunit.file_delete_state <> {{FileDeleteState.DONE}}
        ) AS waiting_for_deletion,
        count(*) FILTER (WHERE workunit.file_delete_state = {{FileDeleteState.DONE}}) AS purgeable,
        count(*) FILTER (WHERE workunit.canonical_result_id IS NOT NULL) AS done,
        count(*) FILTER (WHERE workunit.error_mask <> 0) AS failed,
        count(*) FILTER (WHERE workunit.transition_at <= %(now)s::timestamptz) AS due
    FROM workunit
    GROUP BY workunit.app_id
) AS counted ON app.id = counted.app_id
LEFT JOIN purged_workunits AS purged ON app.id = purged.app_id
