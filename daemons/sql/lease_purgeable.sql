-- Claim completed workunits whose files are deleted, to archive them.
WITH due AS (
    SELECT w.id
    FROM workunit AS w
    WHERE
        w.file_delete_state = {{FileDeleteState.DONE}}
        AND NOT w.outputs_kept
        AND w.assimilate_state = {{AssimilateState.DONE}}
        AND w.transition_at IS NULL
        AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
        AND NOT w.need_validate
        AND w.finished_at <= %(finished_before)s::timestamptz
        AND (w.lease_until IS NULL OR w.lease_until <= %(now)s::timestamptz)
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
        AND w.id > %(after_id)s::bigint
        AND w.id %% %(shard_count)s::bigint = %(shard_index)s::bigint
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
    LIMIT %(limit)s::bigint
    FOR NO KEY UPDATE OF w SKIP LOCKED
)

UPDATE workunit AS w
SET
    lease_until = %(lease_until)s::timestamptz,
    lease_token = w.lease_token + 1
FROM due
WHERE w.id = due.id
RETURNING w.id, w.lease_token
