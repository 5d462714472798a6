-- Read files that are marked for deletion, in the order of their marks.
SELECT
    id,
    name
FROM file
WHERE
    doomed_at IS NOT NULL
    AND doomed_at <= %(now)s::timestamptz
    AND id %% %(shard_count)s::bigint = %(shard_index)s::bigint
ORDER BY doomed_at, id
LIMIT %(limit)s::bigint
