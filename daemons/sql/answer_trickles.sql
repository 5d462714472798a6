-- Store handlers' replies for the hosts of results that are in progress.
INSERT INTO trickle_down (host_id, result_id, result_name, text, created_at)
SELECT
    r.host_id,
    r.id,
    r.name,
    u.text,
    %(now)s::timestamptz
FROM unnest(%(ids)s::bigint[], %(texts)s::text[]) AS u (id, text)
INNER JOIN result AS r ON u.id = r.id
WHERE r.server_state = {{ServerState.IN_PROGRESS}} AND r.host_id IS NOT NULL
