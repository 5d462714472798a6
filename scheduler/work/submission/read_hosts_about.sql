-- Counts at most `limit` active hosts, and reads their largest memory and disk.
SELECT
    count(*) AS hosts,
    count(DISTINCT about.account_id) AS accounts,
    coalesce(max(about.m_nbytes), 0) AS memory_bytes,
    coalesce(max(coalesce(nullif(about.d_free, 0), about.d_total)), 0) AS disk_bytes
FROM (
    SELECT
        host.account_id,
        host.m_nbytes,
        host.d_total,
        host.d_free
    FROM host
    WHERE
        host.rpc_at > %(seen_since)s::timestamptz
        AND NOT host.denied
        AND host.merged_into_id IS NULL
    LIMIT %(limit)s::bigint
) AS about
