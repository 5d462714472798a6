-- Gives imported workunits, which this transaction has inserted, the times of their task files.
UPDATE workunit AS w
SET
    created_at = task.created_at,
    start_before = task.start_before,
    end_before = task.end_before
FROM unnest(
    %(ids)s::bigint[],
    %(created_ats)s::timestamptz[],
    %(start_befores)s::timestamptz[],
    %(end_befores)s::timestamptz[]
) AS task (id, created_at, start_before, end_before)
WHERE w.id = task.id
