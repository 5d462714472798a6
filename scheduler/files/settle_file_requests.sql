-- Writes the new state of file requests: sent, done or failed; clears the reference of finished
-- requests to their file.
UPDATE file_request AS q
SET
    state = verdict.state,
    sent_at = CASE WHEN verdict.state = 1 THEN %(now)s::timestamptz ELSE q.sent_at END,
    done_at = CASE WHEN verdict.state = 1 THEN NULL ELSE %(now)s::timestamptz END,
    file_id = CASE WHEN verdict.state = 1 THEN q.file_id END
FROM unnest(%(ids)s::bigint[], %(states)s::smallint[]) AS verdict (id, state)
WHERE q.id = verdict.id AND q.state < 2
