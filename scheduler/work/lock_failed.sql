-- Locks a chunk of a batch's failed, not yet retried workunits with or without dependencies.
-- With `names`, only those named; without `limit`, all.
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
    batch_id = %(batch_id)s::bigint
    AND id > %(after_id)s::bigint
    AND error_mask <> 0
    AND retried_as IS NULL
    AND has_parents = %(are_joined)s::boolean
    AND (%(names)s::text[] IS NULL OR name = any(%(names)s::text[]))
ORDER BY id
LIMIT %(limit)s::integer
FOR NO KEY UPDATE
