-- Read which locked workunits may be dropped: complete, not woken since, with all files deleted.
SELECT
    w.id,
    w.has_parents OR w.has_children AS has_edges,
    w.bundle_id IS NOT NULL AS is_listed
FROM workunit AS w
WHERE
    w.id = any(%(ids)s::bigint[])
    AND w.file_delete_state = {{FileDeleteState.DONE}}
    AND w.transition_at IS NULL
    AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
    AND NOT EXISTS (
        SELECT FROM result AS r
        WHERE
            r.workunit_id = w.id
            AND (
                r.server_state <> {{ServerState.OVER}}
                OR r.file_delete_state <> {{FileDeleteState.DONE}}
            )
    )
    -- A parent is kept until its children have ended, and a failed one until they are purged: a
    -- child that is retried must not be released without it.
    AND NOT (
        w.has_children
        AND EXISTS (
            SELECT FROM dependency AS d
            INNER JOIN workunit AS child ON d.child_id = child.id
            WHERE
                d.parent_id = w.id
                AND (
                    w.error_mask <> 0
                    OR (child.canonical_result_id IS NULL AND child.error_mask = 0)
                )
            -- OFFSET 0 makes PostgreSQL look up each parent, and not read the whole table.
            OFFSET 0
        )
    )
