-- Drop locked, archived workunits with all that is theirs.
WITH dropped_outputs AS (
    DELETE FROM result_file
    WHERE
        result_id IN (
            SELECT r.id
            FROM result AS r
            WHERE r.workunit_id = any(%(ids)s::bigint[])
        )
),

dropped_results AS (
    DELETE FROM result
    WHERE workunit_id = any(%(ids)s::bigint[])
),

dropped_inputs AS (
    DELETE FROM workunit_file
    WHERE workunit_id = any(%(ids)s::bigint[])
)

DELETE FROM workunit
WHERE id = any(%(ids)s::bigint[])
