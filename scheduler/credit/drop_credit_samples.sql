-- Drops samples before a day, except the newest of each holder, from which later credit is counted.
WITH old AS (
    SELECT sample.id
    FROM credit_sample AS sample
    WHERE
        sample.day < %(before)s::date
        AND EXISTS (
            SELECT FROM credit_sample AS later
            WHERE
                later.kind = sample.kind
                AND later.holder_id = sample.holder_id
                AND later.day > sample.day
                AND later.day <= %(before)s::date
        )
    ORDER BY sample.id
    LIMIT %(limit)s::bigint
)

DELETE FROM credit_sample
WHERE id IN (SELECT old.id FROM old)
