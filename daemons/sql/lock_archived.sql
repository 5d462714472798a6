-- Lock archived workunits whose lease token is unchanged.
SELECT w.id
FROM workunit AS w
INNER JOIN unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS u (id, token) ON w.id = u.id
WHERE w.lease_token = u.token
ORDER BY w.id
FOR UPDATE OF w SKIP LOCKED
