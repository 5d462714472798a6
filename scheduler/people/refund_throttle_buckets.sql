-- Subtracts the charges of an attempt from its buckets, locked in the order of their keys.
WITH locked AS (
    SELECT id
    FROM throttle_bucket
    WHERE key = ANY(%(keys)s::text[])
    ORDER BY key
    FOR UPDATE
)

UPDATE throttle_bucket AS b
SET
    empty_at = b.empty_at - (
        SELECT asked.charge
        FROM unnest(%(keys)s::text[], %(charges)s::interval[]) AS asked (key, charge)
        WHERE asked.key = b.key
    )
WHERE b.id = ANY(ARRAY(SELECT locked.id FROM locked))
