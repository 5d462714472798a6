-- Read the newest ended results of hosts that are spread over all hosts, and of these the successes
-- of an app, with the estimates of their workunits.
WITH bounds AS MATERIALIZED (
    SELECT
        (
            SELECT r.host_id
            FROM result AS r
            WHERE r.host_id > 0 AND r.server_state = {{ServerState.OVER}}
            ORDER BY r.host_id ASC, r.id ASC
            LIMIT 1
        ) AS first_id,
        (
            SELECT r.host_id
            FROM result AS r
            WHERE r.host_id > 0 AND r.server_state = {{ServerState.OVER}}
            ORDER BY r.host_id DESC, r.id DESC
            LIMIT 1
        ) AS last_id
),

spread AS MATERIALIZED (
    SELECT DISTINCT nearest.host_id
    FROM bounds
    CROSS JOIN generate_series(0, %(hosts)s::bigint - 1) AS step (number)
    CROSS JOIN LATERAL (
        SELECT r.host_id
        FROM result AS r
        WHERE
            r.host_id
            >= bounds.first_id
            + (bounds.last_id - bounds.first_id + 1) * step.number / %(hosts)s::bigint
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id ASC, r.id ASC
        LIMIT 1
    ) AS nearest
),

-- One look-up per host, backwards in the index read_own_results.
ended AS MATERIALIZED (
    SELECT newest.*
    FROM spread
    CROSS JOIN LATERAL (
        SELECT
            r.workunit_id,
            r.app_id,
            r.app_version_id,
            r.outcome,
            r.validate_state,
            r.runtime_outlier,
            r.received_at,
            r.elapsed_time,
            r.cpu_time,
            r.flops_estimate
        FROM result AS r
        WHERE
            r.host_id >= spread.host_id
            AND (r.host_id, r.id) < (spread.host_id, 9223372036854775807)
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id DESC, r.id DESC
        LIMIT (SELECT %(results)s::bigint / count(*) FROM spread)
    ) AS newest
)

SELECT
    ended.app_version_id,
    ended.received_at,
    ended.elapsed_time,
    ended.cpu_time,
    ended.flops_estimate,
    workunit.rsc_fpops_est,
    workunit.rsc_fpops_bound
FROM ended
INNER JOIN workunit ON ended.workunit_id = workunit.id
WHERE
    ended.app_id = %(app_id)s::bigint
    AND ended.outcome = {{Outcome.SUCCESS}}
    AND ended.validate_state <> {{ValidateState.INVALID}}
    AND NOT ended.runtime_outlier
