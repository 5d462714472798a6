-- Insert usage samples, at most one per result and interval.
INSERT INTO usage_sample
(result_id, at, fraction_done, cpu_time, elapsed_time, memory_bytes, gpu_usage)
SELECT
    u.result_id,
    u.at,
    u.fraction_done,
    u.cpu_time,
    u.elapsed_time,
    u.memory_bytes,
    u.gpu_usage
FROM unnest(
    %(result_ids)s::bigint[],
    %(ats)s::timestamptz[],
    %(fractions)s::double precision[],
    %(cpu_times)s::double precision[],
    %(elapsed_times)s::double precision[],
    %(memory_bytes)s::double precision[],
    %(gpu_usages)s::double precision[]
) AS u (result_id, at, fraction_done, cpu_time, elapsed_time, memory_bytes, gpu_usage)
WHERE NOT EXISTS (
    SELECT FROM usage_sample AS s
    WHERE
        s.result_id = u.result_id
        AND s.at > u.at - %(every)s::interval
        AND s.at < u.at + %(every)s::interval
)
