-- Counts the hosts whose newest request for work got nothing since `since`, by the most frequent
-- reason; at most the newest `limit` hosts are read.  The reason is an empty string if no result
-- was refused.  The row whose reason is NULL counts the other hosts that were read.
WITH newest AS (
    SELECT
        host.id,
        CASE
            WHEN
                host.rpc_at >= %(since)s::timestamptz
                AND NOT host.denied
                AND host.merged_into_id IS NULL
                THEN host.last_decisions -> 0
        END AS decision
    FROM host
    ORDER BY host.id DESC
    LIMIT %(limit)s::bigint
)

SELECT
    CASE WHEN judged.is_without_work THEN coalesce(main.reason, '') END AS reason,
    count(*) AS hosts,
    max(newest.id) AS newest_id
FROM newest
CROSS JOIN LATERAL (
    SELECT
        -- Times are compared as texts, because an unreadable one must not fail.
        newest.decision ->> 'at' >= %(since_text)s::text COLLATE "C"
        AND coalesce(newest.decision ->> 'given', '0') = '0'
        AND coalesce(newest.decision ->> 'resent', '0') = '0' AS is_without_work
) AS judged
LEFT JOIN LATERAL (
    SELECT refusal.key AS reason
    FROM
        jsonb_each(
            CASE
                WHEN jsonb_typeof(newest.decision -> 'refused') = 'object'
                    THEN newest.decision -> 'refused'
            END
        ) AS refusal
    ORDER BY refusal.value DESC, refusal.key
    LIMIT 1
) AS main ON judged.is_without_work
GROUP BY 1
ORDER BY hosts DESC, reason
