-- Drop samples older than `before`, and those that are not hourly and older than `minutes_before`.
WITH old AS (
    SELECT id
    FROM status_sample
    WHERE
        at < %(before)s::timestamptz
        OR (at < %(minutes_before)s::timestamptz AND NOT is_hourly)
    ORDER BY id
    LIMIT %(limit)s::bigint
)

DELETE FROM status_sample
WHERE id IN (SELECT old.id FROM old)
