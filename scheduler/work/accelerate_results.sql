-- Changes the priority of unsent results; the caller has locked their workunits.
-- Accelerated results are sent first to quick and reliable hosts, if the app defines such hosts.
WITH unsent AS (
    SELECT
        result.id,
        app.reliable_max_turnaround,
        app.reliable_wait
    FROM result
    INNER JOIN app ON result.app_id = app.id
    WHERE
        result.workunit_id = any(%(workunit_ids)s::bigint[])
        AND result.server_state IN ({{ServerState.INACTIVE}}, {{ServerState.UNSENT}})
    ORDER BY result.id
    FOR NO KEY UPDATE OF result
)

UPDATE result
SET
    priority = greatest(
        least(result.priority::bigint + %(by)s::bigint, 2147483647), -2147483647
    )::integer,
    reliable_until = CASE
        WHEN %(by)s::bigint > 0 AND unsent.reliable_max_turnaround IS NOT NULL
            THEN greatest(result.reliable_until, %(now)s::timestamptz + unsent.reliable_wait)
        ELSE result.reliable_until
    END
FROM unsent
WHERE result.id = unsent.id
RETURNING result.id
