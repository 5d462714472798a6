-- Find workunits with at least `minimum` failed results, one of which is among the newest ended
-- results of the computers with the latest errors; those with most failed results first.
WITH failing AS MATERIALIZED (
    SELECT * FROM unnest(%(host_ids)s::bigint[]) AS host (id)
),

-- As in count_recent_failures.
ended AS MATERIALIZED (
    SELECT DISTINCT newest.workunit_id
    FROM failing
    CROSS JOIN LATERAL (
        SELECT
            r.workunit_id,
            r.app_id,
            r.outcome
        FROM result AS r
        WHERE
            r.host_id >= failing.id
            AND (r.host_id, r.id) < (failing.id, 9223372036854775807)
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id DESC, r.id DESC
        LIMIT %(results)s::bigint
    ) AS newest
    WHERE
        newest.outcome IN ({{Outcome.CLIENT_ERROR}}, {{Outcome.VALIDATE_ERROR}})
        AND newest.app_id = coalesce(%(app_id)s::bigint, newest.app_id)
)

SELECT ended.workunit_id AS id
FROM ended
CROSS JOIN LATERAL (
    SELECT count(*) AS results
    FROM result AS r
    WHERE
        r.workunit_id = ended.workunit_id
        AND r.outcome IN ({{Outcome.CLIENT_ERROR}}, {{Outcome.VALIDATE_ERROR}})
) AS failed
WHERE failed.results >= %(minimum)s::bigint
ORDER BY failed.results DESC, ended.workunit_id DESC
LIMIT %(limit)s::bigint
