-- Marks locked workunits whose new result waits for another task list as members of no list.
UPDATE workunit AS w
SET bundle_id = 0
WHERE
    w.id = ANY(%(workunit_ids)s::bigint[])
    AND w.bundle_id > 0
    AND EXISTS (
        SELECT FROM result AS r
        WHERE
            r.workunit_id = w.id
            AND r.server_state <= {{ServerState.UNSENT}}
            AND r.target_kind = {{Target.BUNDLE}}
            AND r.target_id = 0
    )
