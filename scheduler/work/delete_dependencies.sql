-- Deletes edges from a locked workunit to locked children, and wakes the children.
WITH deleted AS (
    DELETE FROM dependency
    WHERE
        parent_id = %(parent_id)s::bigint
        AND child_id = any(%(child_ids)s::bigint[])
    RETURNING child_id
)

INSERT INTO workunit_wakeup (workunit_id, inserted_at)
SELECT
    child_id,
    %(now)s::timestamptz
FROM deleted
