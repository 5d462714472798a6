-- Inserts edges between locked workunits, makes held children inactive, and wakes the children.
WITH pair AS (
    SELECT
        parent_id,
        child_id
    FROM unnest(%(parent_ids)s::bigint[], %(child_ids)s::bigint[]) AS edge (parent_id, child_id)
),

linked AS (
    SELECT
        id,
        bool_or(is_parent) AS is_parent,
        bool_or(is_child) AS is_child
    FROM (
        SELECT
            parent_id AS id,
            TRUE AS is_parent,
            FALSE AS is_child
        FROM pair
        UNION ALL
        SELECT
            child_id,
            FALSE,
            TRUE
        FROM pair
    ) AS ends
    GROUP BY id
),

held AS (
    SELECT w.id
    FROM linked
    INNER JOIN workunit AS w ON linked.id = w.id
    WHERE linked.is_child AND w.release_state = {{ReleaseState.HELD}}
),

flagged AS (
    UPDATE workunit AS w
    SET
        has_parents = w.has_parents OR linked.is_child,
        has_children = w.has_children OR linked.is_parent,
        release_state = CASE
            WHEN linked.is_child THEN {{ReleaseState.INACTIVE}}
            ELSE w.release_state
        END,
        hold_code = CASE WHEN linked.is_child THEN NULL ELSE w.hold_code END
    FROM linked
    WHERE w.id = linked.id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT
        id,
        %(now)s::timestamptz
    FROM linked
    WHERE is_child
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        id,
        %(axis)s::smallint,
        {{ReleaseState.HELD}},
        {{ReleaseState.INACTIVE}},
        %(because)s::smallint,
        %(by)s::smallint
    FROM held
    WHERE %(ledger)s::boolean
)

INSERT INTO dependency (parent_id, child_id)
SELECT
    parent_id,
    child_id
FROM pair
