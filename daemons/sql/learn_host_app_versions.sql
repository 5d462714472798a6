-- Remember what was learned of app versions on locked hosts, in ascending order of the pairs.
INSERT INTO host_app_version AS known (
    host_id, app_version_id, consecutive_valid, n_valid, max_results_per_day, results_today,
    et_n, et_avg, turnaround_n, turnaround_avg
)
SELECT
    learned.host_id,
    learned.app_version_id,
    learned.consecutive_valid,
    learned.n_valid,
    0,
    0,
    learned.et_n,
    learned.et_avg,
    learned.turnaround_n,
    learned.turnaround_avg
FROM unnest(
    %(host_ids)s::bigint[],
    %(app_version_ids)s::bigint[],
    %(consecutive_valids)s::integer[],
    %(n_valids)s::bigint[],
    %(et_ns)s::double precision[],
    %(et_avgs)s::double precision[],
    %(turnaround_ns)s::double precision[],
    %(turnaround_avgs)s::double precision[]
) AS learned (
    host_id, app_version_id, consecutive_valid, n_valid, et_n, et_avg, turnaround_n, turnaround_avg
)
ORDER BY learned.host_id, learned.app_version_id
ON CONFLICT (host_id, app_version_id) DO UPDATE
SET
    consecutive_valid = excluded.consecutive_valid,
    n_valid = excluded.n_valid,
    et_n = excluded.et_n,
    et_avg = excluded.et_avg,
    turnaround_n = excluded.turnaround_n,
    turnaround_avg = excluded.turnaround_avg
