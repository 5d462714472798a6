-- Counts active hosts by operating system and processor.  Reads the whole table of hosts.
SELECT
    host.os_name,
    host.p_vendor,
    host.p_model,
    count(*) AS hosts
FROM host
WHERE
    host.rpc_at > %(seen_since)s::timestamptz
    AND NOT host.denied
    AND host.merged_into_id IS NULL
GROUP BY host.os_name, host.p_vendor, host.p_model
