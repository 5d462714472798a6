-- Locks those of some failed workunits, with or without dependencies, that were not retried.
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
    id = any(%(ids)s::bigint[])
    AND retried_as IS NULL
    AND has_parents = %(are_joined)s::boolean
ORDER BY id
FOR NO KEY UPDATE
