-- Note that a chore that had failed has succeeded.
UPDATE heartbeat
SET failed_passes = 0
WHERE name = %(name)s::text
