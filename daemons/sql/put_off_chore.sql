-- Make a failed chore due before its interval has passed.
UPDATE heartbeat
SET seen_at = %(seen_at)s::timestamptz
WHERE name = %(name)s::text
