-- Notes how far results in progress have come; one that others hold is passed over, it will say
-- more.  Nobody is woken.
WITH free AS (
    SELECT r.id
    FROM result AS r
    WHERE r.id = any(%(ids)s::bigint[]) AND r.server_state = 4
    FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE result AS r
SET fraction_done = u.fraction_done
FROM unnest(%(ids)s::bigint[], %(fractions)s::double precision[]) AS u (id, fraction_done)
WHERE r.id = u.id AND r.id = any(ARRAY(SELECT id FROM free)) AND r.server_state = 4
