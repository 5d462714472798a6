-- Records the recipients of a letter; returns those that had no copy of it.
INSERT INTO letter_recipient (letter_id, account_id, created_at)
SELECT
    %(letter_id)s::bigint,
    recipient.account_id,
    %(now)s::timestamptz
FROM unnest(%(account_ids)s::bigint[]) AS recipient (account_id)
ON CONFLICT (letter_id, account_id) DO NOTHING
RETURNING account_id
