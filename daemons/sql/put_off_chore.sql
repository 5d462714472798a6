-- Make a failed chore due before its interval has passed, and count its failures in a row.
UPDATE heartbeat
SET
    seen_at = %(seen_at)s::timestamptz,
    failed_passes = failed_passes + 1
WHERE name = %(name)s::text
