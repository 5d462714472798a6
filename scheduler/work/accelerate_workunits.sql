-- Changes the priority of a batch's unfinished workunits, locked in ascending id.
WITH unfinished AS (
    SELECT id
    FROM workunit
    WHERE
        batch_id = %(batch_id)s::bigint
        AND canonical_result_id IS NULL
        AND error_mask = 0
    ORDER BY id
    FOR NO KEY UPDATE
)

UPDATE workunit
SET
    priority = greatest(
        least(workunit.priority::bigint + %(by)s::bigint, 2147483647), -2147483647
    )::integer
FROM unfinished
WHERE workunit.id = unfinished.id
RETURNING workunit.id
