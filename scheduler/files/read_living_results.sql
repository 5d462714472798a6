-- Reads which of these ids belong to results whose files are not deleted.
SELECT id
FROM result
WHERE id = any(%(ids)s::bigint[]) AND file_delete_state <> {{FileDeleteState.DONE}}
