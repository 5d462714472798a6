-- Wake at once what was due by a clock that has been set back since.
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
