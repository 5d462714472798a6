-- Drop old refusals: the reasons why hosts were not sent workunits.
WITH old AS (
    SELECT id
    FROM refusal
    WHERE
        id > %(after)s::bigint
        AND at < %(before)s::timestamptz
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

dropped AS (
    DELETE FROM refusal
    WHERE id IN (SELECT old.id FROM old)
    RETURNING id
)

SELECT
    count(*) AS changed,
    max(id) AS last
FROM dropped
