-- Claims an idempotency key, waiting for another request that holds it; no row: it is taken.
INSERT INTO idempotency_key (account_id, key, request_hash, status, answer, created_at)
VALUES (%(account_id)s::bigint, %(key)s::text, '', 0, '{}'::jsonb, %(now)s::timestamptz)
ON CONFLICT (account_id, key) DO NOTHING
RETURNING id
