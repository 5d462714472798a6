-- Claim finished workunits by a lease, and read the data for their assimilators.
WITH due AS (
    SELECT id
    FROM workunit
    WHERE
        -- A literal, not a parameter, so that a generic plan can use the partial index.
        assimilate_state = {{AssimilateState.READY}}
        AND assimilate_state = any(%(sources)s::smallint[])
        AND (assimilate_after IS NULL OR assimilate_after <= %(now)s::timestamptz)
        AND (lease_until IS NULL OR lease_until <= %(now)s::timestamptz)
        AND NOT EXISTS (
            SELECT FROM science_failure AS f
            WHERE f.stage = 2 AND f.subject_id = workunit.id AND f.parked_at IS NOT NULL
        )
        AND id > %(after_id)s::bigint
        AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    ORDER BY id
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE SKIP LOCKED
),

claimed AS (
    UPDATE workunit AS w
    SET
        -- The last workunit of the batch may take the whole time limit of its app.
        lease_until = %(now)s::timestamptz + %(lease)s::interval
            + (SELECT max(science_time_limit) FROM app),
        lease_token = w.lease_token + 1
    FROM due
    WHERE w.id = due.id
    RETURNING
        w.id, w.name, w.app_id, w.batch_id, w.meta, w.outputs, w.error_mask, w.cancel_reason,
        w.canonical_result_id, w.lease_token
)

SELECT
    claimed.id,
    claimed.name,
    claimed.batch_id,
    claimed.meta,
    claimed.outputs::text AS outputs,
    claimed.error_mask,
    claimed.cancel_reason,
    claimed.canonical_result_id,
    claimed.lease_token,
    claimed.app_id,
    app.name AS app,
    app.assimilator,
    app.assimilator_options,
    app.science_time_limit,
    EXISTS (
        SELECT FROM science_failure AS f
        WHERE f.stage = 2 AND f.subject_id = claimed.id
    ) AS has_failed,
    canonical.name AS canonical_result_name,
    brought.positions,
    brought.names
FROM claimed
INNER JOIN app ON claimed.app_id = app.id
LEFT JOIN result AS canonical ON claimed.canonical_result_id = canonical.id
CROSS JOIN LATERAL (
    SELECT
        array_agg(f.position ORDER BY f.position) AS positions,
        array_agg(f.name ORDER BY f.position) AS names
    FROM result_file AS f
    WHERE f.result_id = claimed.canonical_result_id
) AS brought
ORDER BY claimed.id
