-- Drop entries of the audit log that are older than AUDIT_KEPT_DAYS.
WITH old AS (
    SELECT id
    FROM audit_entry
    WHERE
        id > %(after)s::bigint
        AND at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM audit_entry
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
