-- Read the hosts with the latest counted errors, those with most errors first.
SELECT host_id AS id
FROM host_outcomes
WHERE hour >= %(since)s::timestamptz AND errors + invalid > 0
GROUP BY host_id
ORDER BY max(hour) DESC, sum(errors + invalid) DESC, host_id DESC
LIMIT %(hosts)s::bigint
