-- Counts computers with credit by system, processor and GPU.
-- Names of less than `min_owners` accounts are left out.
WITH shown AS MATERIALIZED (
    SELECT
        host.id,
        host.account_id,
        host.os_name,
        host.p_vendor,
        -- Without stepping and trademark signs.
        regexp_replace(host.p_model, '\s*\[[^]]*\]|\((R|TM|C)\)', '', 'gi') AS p_model,
        host.capabilities,
        host.total_credit,
        host.expavg_credit
    FROM host
    INNER JOIN account ON host.account_id = account.id
    WHERE
        host.merged_into_id IS NULL
        AND host.total_credit > 0
        -- The condition of sharing.shares.
        AND account.is_active
        AND account.share_statistics
),

named AS (
    SELECT
        shown.*,
        'system' AS kind,
        shown.os_name AS model_name
    FROM shown
    UNION ALL
    SELECT
        shown.*,
        'vendor' AS kind,
        shown.p_vendor AS model_name
    FROM shown
    UNION ALL
    SELECT
        shown.*,
        'processor' AS kind,
        shown.p_model AS model_name
    FROM shown
    UNION ALL
    SELECT
        shown.*,
        'gpu' AS kind,
        gpu.model_name
    FROM shown
    CROSS JOIN LATERAL (
        SELECT DISTINCT gpu.model #>> '{}' AS model_name
        FROM
            jsonb_path_query(
                shown.capabilities, '$.gpus[*].name ? (@.type() == "string")'
            ) AS gpu (model)
    ) AS gpu
),

-- Clients send any text: names have no control characters, and no invisible ones that change the
-- direction of the text around them.
cleaned AS (
    SELECT
        named.kind,
        named.id,
        named.account_id,
        named.total_credit,
        named.expavg_credit,
        left(
            trim(
                regexp_replace(
                    left(named.model_name, 1000),
                    '[[:cntrl:]\s\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF]+',
                    ' ',
                    'g'
                )
            ),
            100
        ) AS model_name
    FROM named
),

counted AS (
    SELECT
        kind,
        model_name,
        count(DISTINCT id) AS computers,
        sum(total_credit) AS total_credit,
        sum(expavg_credit) AS recent_credit
    FROM cleaned
    WHERE model_name <> ''
    GROUP BY kind, model_name
    HAVING count(DISTINCT account_id) >= %(min_owners)s::bigint
),

ranked AS (
    SELECT
        counted.*,
        row_number() OVER (
            PARTITION BY counted.kind
            ORDER BY counted.recent_credit DESC, counted.total_credit DESC, counted.model_name ASC
        ) AS place
    FROM counted
)

INSERT INTO hardware_count (kind, name, computers, total_credit, recent_credit, counted_at)
SELECT
    ranked.kind,
    ranked.model_name,
    ranked.computers,
    ranked.total_credit,
    ranked.recent_credit,
    %(now)s::timestamptz
FROM ranked
WHERE ranked.place <= %(max_rows)s::bigint
