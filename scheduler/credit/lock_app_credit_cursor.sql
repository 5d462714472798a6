-- Lock the cursor of the credit of hosts and teams by app, which may have no row yet.
INSERT INTO app_credit_cursor (id, counted_to)
VALUES (1, 0)
ON CONFLICT (id) DO UPDATE SET id = excluded.id
RETURNING counted_to
