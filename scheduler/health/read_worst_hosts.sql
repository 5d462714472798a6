-- Reads the counted hosts with the highest error rates since a time, as in `Rate.rank`.
SELECT
    counted.host_id,
    counted.reported,
    counted.errors,
    counted.invalid,
    host.domain_name
FROM (
    SELECT
        host_id,
        sum(reported)::bigint AS reported,
        sum(errors)::bigint AS errors,
        sum(invalid)::bigint AS invalid
    FROM host_outcomes
    WHERE hour >= %(since)s::timestamptz
    GROUP BY host_id
    HAVING sum(errors + invalid) > 0
    ORDER BY
        sum(errors + invalid)::double precision / (sum(reported) + %(doubt)s::bigint) DESC,
        host_id
    LIMIT %(limit)s::bigint
) AS counted
LEFT JOIN host ON counted.host_id = host.id
