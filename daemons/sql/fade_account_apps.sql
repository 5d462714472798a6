-- Decay the recent averages of accounts by app that no grant has updated for a while.
WITH idle AS (
    SELECT id
    FROM account_app_credit
    WHERE
        id > %(after)s::bigint
        AND expavg > 0
        AND expavg_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

faded AS (
    UPDATE account_app_credit AS kept
    SET
        expavg = CASE
            WHEN kept.expavg < %(nothing)s::double precision THEN 0
            ELSE kept.expavg * power(
                0.5::double precision,
                least(
                    100,
                    extract(EPOCH FROM %(now)s::timestamptz - kept.expavg_at)::double precision
                    / %(half_life)s::double precision
                )
            )
        END,
        expavg_at = %(now)s::timestamptz
    FROM idle
    WHERE kept.id = idle.id
    RETURNING kept.id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM faded
