-- Refunds an attempt to its buckets, locked in the order of their keys.
WITH charged AS (
    SELECT b.id, asked.charge
    FROM unnest(%(keys)s::text[], %(charges)s::interval[]) AS asked (key, charge)
    INNER JOIN throttle_bucket AS b ON asked.key = b.key
    ORDER BY b.key
    FOR UPDATE OF b
)

UPDATE throttle_bucket AS b
SET empty_at = b.empty_at - charged.charge
FROM charged
WHERE b.id = charged.id
