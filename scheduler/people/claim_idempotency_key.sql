-- Claims an idempotency key; waits for a concurrent claim; returns no row if the key is taken.
INSERT INTO idempotency_key (account_id, key, request_hash, status, answer, created_at)
VALUES (%(account_id)s::bigint, %(key)s::text, '', 0, '{}'::jsonb, %(now)s::timestamptz)
ON CONFLICT (account_id, key) DO NOTHING
RETURNING id
