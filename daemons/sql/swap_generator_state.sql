-- Store a generator's new state if the stored state is unchanged since the call began.
UPDATE app
SET generator_state = %(state)s::jsonb
WHERE
    id = %(id)s::bigint
    AND generator_state = %(before)s::jsonb
