-- Locks task lists that are not closed, in ascending id; their members are read by the next
-- statement.
SELECT
    id,
    state,
    is_ready
FROM bundle
WHERE
    id = ANY(%(ids)s::bigint[])
    AND state <> {{BundleState.CLOSED}}
ORDER BY id
FOR NO KEY UPDATE
