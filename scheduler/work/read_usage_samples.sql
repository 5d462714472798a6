-- Reads the newest usage samples of each of some results, oldest first.
SELECT
    newest.result_id,
    newest.at,
    newest.fraction_done,
    newest.cpu_time,
    newest.elapsed_time,
    newest.memory_bytes,
    newest.gpu_usage,
    newest.cpu_utilization
FROM unnest(%(result_ids)s::bigint[]) AS wanted (result_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM usage_sample
    WHERE usage_sample.result_id = wanted.result_id
    ORDER BY usage_sample.at DESC
    LIMIT %(limit)s::bigint
) AS newest
ORDER BY newest.result_id, newest.at
