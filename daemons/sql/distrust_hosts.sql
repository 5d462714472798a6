-- Reset the trust and set the daily quota in locked rows of `host_app_version`, after timeouts.
UPDATE host_app_version AS record
SET
    consecutive_valid = 0,
    max_results_per_day = u.max_results_per_day
FROM unnest(%(ids)s::bigint[], %(quotas)s::integer[]) AS u (id, max_results_per_day)
WHERE record.id = u.id
