-- Reads the newest results of an account's computers below an id, from a limited number of the ended results of each.
WITH own AS MATERIALIZED (
    SELECT id, domain_name
    FROM host
    WHERE
        account_id = %(account_id)s::bigint
        AND (%(host_id)s::bigint IS NULL OR id = %(host_id)s::bigint)
),

-- The newest ended result of each computer.  A page needs only the computers with the newest ones.
newest AS MATERIALIZED (
    SELECT
        own.id AS host_id,
        past.id,
        row_number() OVER (ORDER BY past.id DESC) AS place
    FROM own
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM result AS r
        -- With host_id = own.id, the planner could scan all results by id for a host without any.
        WHERE
            r.host_id >= own.id
            AND (r.host_id, r.id) < (own.id, %(below)s::bigint)
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id DESC, r.id DESC
        LIMIT 1
    ) AS past
    WHERE cardinality(%(codes)s::integer[]) > 0
),

-- The number of ended results to read per computer.
bound AS MATERIALIZED (
    SELECT greatest(%(count)s::bigint, %(max_read)s::bigint / greatest(count(*), 1)) AS rows
    FROM newest
    WHERE place <= %(count)s::bigint
),

running AS (
    SELECT held.id
    FROM own
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM result AS r
        WHERE
            r.host_id = own.id
            AND r.server_state = {{ServerState.IN_PROGRESS}}
            AND r.id < %(below)s::bigint
        -- The sum prevents a scan of all results by id.
        ORDER BY r.id + 0 DESC
        LIMIT %(count)s::bigint
    ) AS held
    WHERE %(with_running)s::boolean
),

ended AS MATERIALIZED (
    SELECT
        newest.host_id,
        past.id,
        past.code
    FROM newest
    CROSS JOIN LATERAL (
        SELECT
            r.id,
            10 * r.outcome + r.validate_state AS code
        FROM result AS r
        WHERE
            r.host_id >= newest.host_id
            AND (r.host_id, r.id) < (newest.host_id, %(below)s::bigint)
            AND r.server_state = {{ServerState.OVER}}
        ORDER BY r.host_id DESC, r.id DESC
        LIMIT (SELECT bound.rows FROM bound)
    ) AS past
    WHERE
        newest.place <= %(count)s::bigint
        AND cardinality(%(codes)s::integer[]) > 0
),

-- Below this id, a computer may have ended results that were not read.
lowest AS (
    SELECT coalesce(max(unread.id), 0) AS id
    FROM (
        SELECT min(ended.id) AS id
        FROM ended
        GROUP BY ended.host_id
        HAVING count(*) >= (SELECT bound.rows FROM bound)
        UNION ALL
        SELECT newest.id + 1 FROM newest WHERE newest.place = %(count)s::bigint + 1
    ) AS unread
),

chosen AS (
    SELECT matching.id
    FROM (
        SELECT running.id FROM running
        UNION ALL
        SELECT ended.id FROM ended WHERE ended.code = ANY(%(codes)s::integer[])
    ) AS matching
    WHERE matching.id >= (SELECT lowest.id FROM lowest)
    ORDER BY matching.id DESC
    LIMIT %(count)s::bigint
)

SELECT
    lowest.id AS edge_id,
    r.id,
    r.workunit_id,
    coalesce(nullif(app.user_friendly_name, ''), app.name) AS app,
    r.host_id,
    own.domain_name AS host_name,
    r.server_state,
    r.outcome,
    r.validate_state,
    r.exit_status,
    r.sent_at,
    r.report_deadline,
    r.received_at,
    r.elapsed_time,
    r.cpu_time,
    r.granted_credit
FROM lowest
LEFT JOIN chosen ON TRUE
LEFT JOIN result AS r ON chosen.id = r.id
LEFT JOIN own ON r.host_id = own.id
LEFT JOIN app ON r.app_id = app.id
ORDER BY r.id DESC
