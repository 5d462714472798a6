-- Locks the earliest outage by which deadlines are still to be moved, unless another process holds
-- it.
SELECT
    id,
    began_at,
    ended_at,
    applied_up_to
FROM outage
WHERE applied_at IS NULL
ORDER BY began_at, id
LIMIT 1
FOR UPDATE SKIP LOCKED
