-- Locks the earliest outage that is not fully applied to deadlines; skips it if it is locked.
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
