-- Make workunits due now whose due time is between the new and the old time of the clock.
WITH due AS (
    SELECT id
    FROM workunit
    WHERE
        transition_at > %(now)s::timestamptz
        AND transition_at <= %(was)s::timestamptz
    ORDER BY id
    FOR NO KEY UPDATE
)

UPDATE workunit AS w
SET transition_at = %(now)s::timestamptz
FROM due
WHERE w.id = due.id
