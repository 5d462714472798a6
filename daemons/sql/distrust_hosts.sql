-- A locked host that did not reply starts anew to be trusted, and is given less of it a day.
UPDATE host_app_version AS known
SET
    consecutive_valid = 0,
    max_results_per_day = u.max_results_per_day
FROM unnest(%(ids)s::bigint[], %(quotas)s::integer[]) AS u (id, max_results_per_day)
WHERE known.id = u.id
