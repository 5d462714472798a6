-- Stores how far the deadlines were moved by a locked outage.
UPDATE outage
SET
    applied_up_to = coalesce(%(up_to)s::bigint, applied_up_to),
    applied_at = CASE WHEN %(up_to)s::bigint IS NULL THEN %(now)s::timestamptz END
WHERE id = %(id)s::bigint
