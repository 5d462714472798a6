-- Lock workunits that no longer need their input files; skip workunits locked by another pass.
SELECT
    id,
    file_delete_state
FROM workunit
WHERE
    file_delete_state IN ({{FileDeleteState.READY}}, {{FileDeleteState.ERROR}})
    AND file_delete_state = any(%(sources)s::smallint[])
    AND (file_delete_after IS NULL OR file_delete_after <= %(now)s::timestamptz)
    AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
ORDER BY id
LIMIT %(limit)s::bigint
FOR NO KEY UPDATE SKIP LOCKED
