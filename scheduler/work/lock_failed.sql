-- Locks a chunk of a batch's failed, not yet retried workunits with or without dependencies.
-- With `names`, only those named; without `limit`, all; without `batch_id`, those without a batch.
-- A failed workunit stays failed; that it was not retried is checked again after the wait for a lock.
WITH failed AS (
    SELECT
        id,
        name,
        has_parents
    FROM workunit
    WHERE
        batch_id = %(batch_id)s::bigint
        AND id > %(after_id)s::bigint
        AND error_mask <> 0
        AND retried_as IS NULL
    UNION ALL
    SELECT
        id,
        name,
        has_parents
    FROM workunit
    WHERE
        %(batch_id)s::bigint IS NULL
        AND batch_id IS NULL
        AND id > %(after_id)s::bigint
        AND error_mask <> 0
        AND retried_as IS NULL
)

SELECT
    id,
    name,
    error_mask,
    past_inputs IS NOT NULL AS inputs_gone,
    has_parents,
    rsc_fpops_est * target_nresults AS operations,
    app_id,
    queue_id,
    delay_bound
FROM workunit
WHERE
    id = any(
        array(
            SELECT failed.id
            FROM failed
            WHERE
                failed.has_parents = %(are_joined)s::boolean
                AND (%(names)s::text[] IS NULL OR failed.name = any(%(names)s::text[]))
            ORDER BY failed.id
            LIMIT %(limit)s::integer
        )
    )
    AND retried_as IS NULL
ORDER BY id
FOR NO KEY UPDATE
