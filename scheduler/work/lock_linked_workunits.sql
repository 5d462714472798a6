-- Locks a submitter's workunits by id or name; without a submitter, workunits without a batch.
SELECT w.id
FROM workunit AS w
LEFT JOIN batch AS b ON w.batch_id = b.id
WHERE
    -- An array makes PostgreSQL use the primary key, also for tables that were never analyzed.
    w.id = any(
        array(
            SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given (id)
            UNION ALL
            SELECT named.id FROM workunit AS named WHERE named.name = any(%(names)s::text[])
        )
    )
    AND b.submitter_id IS NOT DISTINCT FROM %(account_id)s::bigint
ORDER BY w.id
FOR NO KEY UPDATE OF w
