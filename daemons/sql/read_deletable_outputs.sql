-- Read results whose outputs are no longer needed and are due for deletion, in ascending id.
SELECT
    r.id,
    r.workunit_id,
    r.name,
    r.file_delete_state,
    r.received_at,
    jsonb_array_length(w.outputs) AS outputs,
    CASE WHEN w.outputs @> '[{"no_delete": true}]'::jsonb THEN w.outputs END AS some_stay
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE
    r.file_delete_state IN ({{FileDeleteState.READY}}, {{FileDeleteState.ERROR}})
    AND r.file_delete_state = any(%(sources)s::smallint[])
    AND (r.file_delete_after IS NULL OR r.file_delete_after <= %(now)s::timestamptz)
    AND r.workunit_id %% %(shard_count)s::bigint = %(shard_index)s::bigint
ORDER BY r.id
LIMIT %(limit)s::bigint
