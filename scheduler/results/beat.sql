-- Records a heartbeat; inserts an outage if the gap since the last heartbeat is too long.
WITH was AS (
    -- If several processes resume at once, the first inserts the outage; the others wait for this
    -- lock and then read the new heartbeat.
    SELECT seen_at
    FROM heartbeat
    WHERE name = %(name)s::text
    FOR UPDATE
),

noticed AS (
    INSERT INTO outage (began_at, ended_at, reason, applied_up_to)
    SELECT
        was.seen_at,
        %(now)s::timestamptz,
        %(reason)s::text,
        0
    FROM was
    WHERE was.seen_at + %(outage_after)s::interval < %(now)s::timestamptz
    RETURNING began_at
),

beaten AS (
    INSERT INTO heartbeat AS kept (name, seen_at)
    SELECT
        %(name)s::text,
        greatest(%(now)s::timestamptz, before.seen_at)
    -- Reads the earlier heartbeat, since the new one would hide the gap.
    FROM (SELECT max(seen_at) AS seen_at FROM was) AS before
    ON CONFLICT (name) DO UPDATE SET seen_at = greatest(kept.seen_at, excluded.seen_at)
)

SELECT began_at FROM noticed
