-- Decay the recent averages of hosts that no grant has updated for a while.
WITH idle AS (
    SELECT id
    FROM host
    WHERE
        id > %(after)s::bigint
        AND expavg_credit > 0
        AND expavg_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

faded AS (
    UPDATE host
    SET
        expavg_credit = CASE
            WHEN host.expavg_credit < %(nothing)s::double precision THEN 0
            ELSE host.expavg_credit * power(
                0.5::double precision,
                least(
                    100,
                    extract(EPOCH FROM %(now)s::timestamptz - host.expavg_at)::double precision
                    / %(half_life)s::double precision
                )
            )
        END,
        expavg_at = %(now)s::timestamptz
    FROM idle
    WHERE host.id = idle.id
    RETURNING host.id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM faded
