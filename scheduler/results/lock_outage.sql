-- Locks the earliest unlocked outage that is not fully applied to deadlines.
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
