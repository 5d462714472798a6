-- Reads the members of task lists, each with its last result in that list.
SELECT
    member.bundle_id,
    member.workunit_id,
    coalesce(w.bundle_id = member.bundle_id, FALSE) AS is_listed,
    (w.error_mask <> 0 OR w.canonical_result_id IS NOT NULL) AS has_ended,
    last_one.id AS result_id,
    last_one.server_state,
    last_one.outcome
FROM bundle_member AS member
-- One look-up per row: while a new table has no statistics, a join may read the whole table.
CROSS JOIN LATERAL (
    SELECT
        bundle_id,
        error_mask,
        canonical_result_id
    FROM workunit
    WHERE id = member.workunit_id
    OFFSET 0
) AS w
LEFT JOIN LATERAL (
    SELECT
        r.id,
        r.server_state,
        r.outcome
    FROM result AS r
    WHERE
        r.workunit_id = member.workunit_id
        AND r.target_kind = {{Target.BUNDLE}}
        AND r.target_id = member.bundle_id
    ORDER BY r.attempt DESC
    LIMIT 1
) AS last_one ON TRUE
WHERE member.bundle_id = ANY(%(bundle_ids)s::bigint[])
ORDER BY member.bundle_id, member.workunit_id
