-- Reads the facts about locked workunits that decide whether they can get dependencies.
SELECT
    w.id,
    w.name,
    w.release_state,
    w.canonical_result_id IS NOT NULL AS has_answer,
    w.error_mask <> 0 AS has_failed,
    -- Not EXISTS: while a new table has no statistics, it may read the whole table.
    (
        SELECT r.id
        FROM result AS r
        WHERE r.workunit_id = w.id
        LIMIT 1
    ) IS NOT NULL AS was_sent,
    coalesce(w.bundle_id, 0) > 0 AS is_listed,
    w.release_state = {{ReleaseState.HELD}} AND w.hold_code IS NULL AS is_held_by_staff
FROM unnest(%(ids)s::bigint[]) AS linked (id)
INNER JOIN workunit AS w ON linked.id = w.id
