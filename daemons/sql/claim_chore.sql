-- Claim a chore whose interval has passed; only one of several concurrent claims succeeds.
-- Returns the number of its failures in a row before.
INSERT INTO heartbeat AS done (name, seen_at)
VALUES (%(name)s::text, %(now)s::timestamptz)
ON CONFLICT (name) DO UPDATE
SET seen_at = excluded.seen_at
WHERE done.seen_at <= %(before)s::timestamptz
RETURNING failed_passes
