-- Store a generator's new state if the stored one is still that with which the call began.
UPDATE app
SET generator_state = %(state)s::jsonb
WHERE
    id = %(id)s::bigint
    AND generator_state = %(before)s::jsonb
