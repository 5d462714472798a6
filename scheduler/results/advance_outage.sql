-- Stores the id of the last result to which a locked outage was applied, or, if `up_to` is NULL,
-- that the outage is applied completely.
UPDATE outage
SET
    applied_up_to = coalesce(%(up_to)s::bigint, applied_up_to),
    applied_at = CASE WHEN %(up_to)s::bigint IS NULL THEN %(now)s::timestamptz END
WHERE id = %(id)s::bigint
