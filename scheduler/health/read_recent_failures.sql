-- Read the newest failed results of one group, with the end of each stderr.
WITH failing AS MATERIALIZED (
    SELECT * FROM unnest(%(host_ids)s::bigint[]) AS host (id)
),

-- As in count_recent_failures.
ended AS MATERIALIZED (
    SELECT newest.id
    FROM failing
    CROSS JOIN LATERAL (
        SELECT
            r.id,
            r.app_id,
            r.app_version_id,
            r.outcome,
            r.exit_status
        FROM result AS r
        WHERE
            r.host_id >= failing.id
            AND (r.host_id, r.id) < (failing.id, 9223372036854775807)
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id DESC, r.id DESC
        LIMIT %(results)s::bigint
    ) AS newest
    WHERE
        newest.app_id = %(app_id)s::bigint
        AND newest.app_version_id IS NOT DISTINCT FROM %(app_version_id)s::bigint
        AND newest.outcome = %(outcome)s::smallint
        AND newest.exit_status = %(exit_status)s::integer
    ORDER BY newest.id DESC
    LIMIT %(limit)s::bigint
)

SELECT
    r.id,
    r.name,
    r.host_id,
    r.received_at,
    length(r.stderr) AS stderr_length,
    right(r.stderr, %(stderr)s::integer) AS stderr_end
FROM result AS r
WHERE r.id = any(ARRAY(SELECT ended.id FROM ended))
ORDER BY r.id DESC
