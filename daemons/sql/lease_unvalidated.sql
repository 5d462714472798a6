-- Claim workunits of an app for its validator: new workunits first, then retries that are
-- due.  Parked workunits and leased workunits are skipped.
WITH due AS (
    SELECT w.id
    FROM workunit AS w
    WHERE
        w.need_validate
        AND w.app_id = %(app_id)s::bigint
        AND (w.validate_after IS NULL OR w.validate_after <= %(now)s::timestamptz)
        AND (w.lease_until IS NULL OR w.lease_until <= %(now)s::timestamptz)
        AND w.id %% %(shard_count)s::bigint = %(shard_index)s::bigint
        AND NOT EXISTS (
            SELECT FROM science_failure AS f
            WHERE
                f.stage = %(stage)s::smallint
                AND f.subject_id = w.id
                AND f.parked_at IS NOT NULL
        )
    ORDER BY w.validate_after NULLS FIRST, w.id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE OF w SKIP LOCKED
)

UPDATE workunit AS w
SET
    lease_until = %(lease_until)s::timestamptz,
    lease_token = w.lease_token + 1
WHERE w.id = any(array(SELECT due.id FROM due))
RETURNING w.id, w.lease_token
