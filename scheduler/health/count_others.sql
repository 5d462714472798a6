-- Counts accounts, hosts, apps whose generator is due, woken workunits, unhandled trickles and late
-- chores.
SELECT
    (SELECT count(*) FROM account) AS accounts,
    (SELECT count(*) FROM host) AS hosts,
    (SELECT count(DISTINCT workunit_wakeup.workunit_id) FROM workunit_wakeup) AS woken,
    -- As the statement `read_hungry_apps` of the work generator.
    (
        SELECT count(*)
        FROM app
        WHERE
            app.generator <> ''
            AND NOT app.deprecated
            AND coalesce((app.generator_state ->> 'ask_again_at')::timestamptz, '-infinity')
            <= %(now)s::timestamptz
            AND app.generator_state ->> 'exhausted'
            IS DISTINCT FROM md5(app.generator || ' ' || app.generator_options::text)
            AND NOT EXISTS (
                SELECT 1
                FROM science_failure AS parked
                WHERE
                    parked.stage = 4
                    AND parked.subject_id = app.id
                    AND parked.parked_at IS NOT NULL
            )
            AND app.cushion > (
                SELECT count(*)
                FROM (
                    SELECT 1
                    FROM result
                    WHERE
                        result.app_id = app.id
                        AND result.server_state = {{ServerState.UNSENT}}
                    LIMIT app.cushion
                ) AS unsent
            )
    ) AS apps_without_stock,
    (SELECT count(*) FROM trickle_up WHERE trickle_up.handled_at IS NULL) AS trickles,
    (
        SELECT count(*)
        FROM heartbeat
        WHERE heartbeat.name LIKE 'chore %%' AND heartbeat.seen_at < %(late)s::timestamptz
    ) AS late_chores
