-- Keeps a generator's new state if it is still the one that we began with.
UPDATE app
SET generator_state = %(state)s::jsonb
WHERE
    id = %(id)s::bigint
    AND generator_state = %(before)s::jsonb
