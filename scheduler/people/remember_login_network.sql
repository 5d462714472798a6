-- Stores a network from which an account logged in; returns a row at most once an hour per network.
INSERT INTO login_network AS n (account_id, network, last_login_at)
VALUES (%(account_id)s::bigint, %(network)s::text, %(now)s::timestamptz)
ON CONFLICT (account_id, network) DO UPDATE
    SET last_login_at = excluded.last_login_at
    WHERE n.last_login_at <= excluded.last_login_at - interval '1 hour'
RETURNING n.id
