-- Have a chore that failed done again sooner than its interval says.
UPDATE heartbeat
SET seen_at = %(seen_at)s::timestamptz
WHERE name = %(name)s::text
