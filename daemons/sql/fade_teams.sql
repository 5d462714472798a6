-- Decay the recent averages of teams that no grant has updated for a while.
WITH idle AS (
    SELECT id
    FROM team
    WHERE
        id > %(after)s::bigint
        AND expavg_credit > 0
        AND expavg_at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

faded AS (
    UPDATE team
    SET
        expavg_credit = CASE
            WHEN team.expavg_credit < %(nothing)s::double precision THEN 0
            ELSE team.expavg_credit * power(
                0.5::double precision,
                least(
                    100,
                    extract(EPOCH FROM %(now)s::timestamptz - team.expavg_at)::double precision
                    / %(half_life)s::double precision
                )
            )
        END,
        expavg_at = %(now)s::timestamptz
    FROM idle
    WHERE team.id = idle.id
    RETURNING team.id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM faded
