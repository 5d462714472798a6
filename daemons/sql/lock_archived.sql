-- Lock archived workunits whose lease token is unchanged and which were not made due since.
SELECT w.id
FROM workunit AS w
INNER JOIN unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS u (id, token) ON w.id = u.id
WHERE
    w.lease_token = u.token
    AND w.file_delete_state = {{FileDeleteState.DONE}}
    AND w.transition_at IS NULL
    AND NOT EXISTS (
        SELECT FROM result AS r
        WHERE
            r.workunit_id = w.id
            AND (
                r.server_state <> {{ServerState.OVER}}
                OR r.file_delete_state <> {{FileDeleteState.DONE}}
            )
    )
ORDER BY w.id
FOR UPDATE OF w SKIP LOCKED
