-- Those of these results that exist and whose files are not deleted.
SELECT id
FROM result
WHERE id = any(%(ids)s::bigint[]) AND file_delete_state <> {{FileDeleteState.DONE}}
