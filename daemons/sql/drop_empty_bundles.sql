-- Drop closed task lists whose members were all purged.
WITH empty AS (
    SELECT id
    FROM bundle AS kept
    WHERE
        id > %(after)s::bigint
        AND state = {{BundleState.CLOSED}}
        AND finished_at < %(before)s::timestamptz
        AND NOT EXISTS (SELECT FROM bundle_member AS m WHERE m.bundle_id = kept.id)
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM bundle
    WHERE id IN (SELECT empty.id FROM empty)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
