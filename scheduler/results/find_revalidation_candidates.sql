-- Reads workunits of an app that may have verdicts and are not assimilated, along indexes: those that
-- wait for assimilation or validation, and those with unsent results or results in progress.  Only
-- the index of unsent results begins with the app, so that the others are read for all apps.
WITH assimilable AS (
    SELECT
        w.id,
        w.app_id
    FROM workunit AS w
    WHERE w.assimilate_state = {{AssimilateState.READY}} AND w.id > 0
    ORDER BY w.id
    LIMIT %(limit)s::bigint
),

unvalidated AS (
    SELECT
        w.id,
        w.app_id
    FROM workunit AS w
    WHERE w.need_validate AND w.id > 0
    ORDER BY w.id
    LIMIT %(limit)s::bigint
),

-- In the order in which they are sent: retries of older workunits come first.
unsent AS (
    SELECT
        r.workunit_id,
        r.app_id
    FROM result AS r
    WHERE r.app_id = %(app_id)s::bigint AND r.server_state = {{ServerState.UNSENT}}
    ORDER BY r.target_kind, r.target_id, r.priority # -1, r.workunit_id
    LIMIT %(limit)s::bigint
),

in_progress AS (
    SELECT
        r.workunit_id,
        r.app_id
    FROM result AS r
    WHERE
        r.server_state = {{ServerState.IN_PROGRESS}}
        AND r.report_deadline > '-infinity'::timestamptz
    ORDER BY r.report_deadline
    LIMIT %(limit)s::bigint
)

SELECT
    read_rows.source,
    count(*) AS number,
    array_agg(read_rows.id) FILTER (WHERE read_rows.app_id = %(app_id)s::bigint) AS ids
FROM (
    SELECT
        'assimilable' AS source,
        id,
        app_id
    FROM assimilable
    UNION ALL
    SELECT
        'unvalidated' AS source,
        id,
        app_id
    FROM unvalidated
    UNION ALL
    SELECT
        'unsent' AS source,
        workunit_id AS id,
        app_id
    FROM unsent
    UNION ALL
    SELECT
        'in_progress' AS source,
        workunit_id AS id,
        app_id
    FROM in_progress
) AS read_rows
GROUP BY read_rows.source
