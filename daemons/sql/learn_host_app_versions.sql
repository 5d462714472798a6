-- Store statistics of app versions on locked hosts, in ascending order of the pairs.
INSERT INTO host_app_version AS record (
    host_id, app_version_id, consecutive_valid, n_valid, max_results_per_day, results_today,
    et_n, et_avg, pfc_n, pfc_avg, turnaround_n, turnaround_avg, uncounted_invalid
)
SELECT
    learned.host_id,
    learned.app_version_id,
    learned.consecutive_valid,
    learned.n_valid,
    learned.max_results_per_day,
    0,
    learned.et_n,
    learned.et_avg,
    learned.pfc_n,
    learned.pfc_avg,
    learned.turnaround_n,
    learned.turnaround_avg,
    learned.uncounted_invalid
FROM unnest(
    %(host_ids)s::bigint[],
    %(app_version_ids)s::bigint[],
    %(consecutive_valids)s::integer[],
    %(n_valids)s::bigint[],
    %(max_results_per_days)s::integer[],
    %(et_ns)s::double precision[],
    %(et_avgs)s::double precision[],
    %(pfc_ns)s::double precision[],
    %(pfc_avgs)s::double precision[],
    %(turnaround_ns)s::double precision[],
    %(turnaround_avgs)s::double precision[],
    %(uncounted_invalids)s::integer[]
) AS learned (
    host_id, app_version_id, consecutive_valid, n_valid, max_results_per_day,
    et_n, et_avg, pfc_n, pfc_avg, turnaround_n, turnaround_avg, uncounted_invalid
)
ORDER BY learned.host_id, learned.app_version_id
ON CONFLICT (host_id, app_version_id) DO UPDATE
SET
    consecutive_valid = excluded.consecutive_valid,
    n_valid = excluded.n_valid,
    max_results_per_day = excluded.max_results_per_day,
    et_n = excluded.et_n,
    et_avg = excluded.et_avg,
    pfc_n = excluded.pfc_n,
    pfc_avg = excluded.pfc_avg,
    turnaround_n = excluded.turnaround_n,
    turnaround_avg = excluded.turnaround_avg,
    uncounted_invalid = excluded.uncounted_invalid
