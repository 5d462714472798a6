-- Decay the recent averages of a table that were last updated before `before`.
WITH idle AS (
    SELECT id
    FROM {{table}}
    WHERE
        id > %(after)s::bigint
        AND {{average}} > 0
        AND expavg_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

decayed AS (
    UPDATE {{table}} AS kept
    SET
        {{average}} = CASE
            WHEN kept.{{average}} < %(nothing)s::double precision THEN 0
            ELSE kept.{{average}} * power(
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
FROM decayed
