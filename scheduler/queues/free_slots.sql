-- Frees the slots of results that are over.  The caller's transaction has ended these results.
UPDATE queue_slot
SET result_id = NULL
WHERE result_id = ANY(%(result_ids)s::bigint[])
