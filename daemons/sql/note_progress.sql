-- Store the fraction done of results in progress.  Locked rows are skipped, because their hosts
-- will send further trickles.  No daemon is woken.
WITH free AS (
    SELECT r.id
    FROM result AS r
    WHERE r.id = any(%(ids)s::bigint[]) AND r.server_state = {{ServerState.IN_PROGRESS}}
    FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE result AS r
SET fraction_done = u.fraction_done
FROM unnest(%(ids)s::bigint[], %(fractions)s::double precision[]) AS u (id, fraction_done)
WHERE
    r.id = u.id
    AND r.id = any(ARRAY(SELECT id FROM free))
    AND r.server_state = {{ServerState.IN_PROGRESS}}
