-- Settle locked workunits that need no input file any more.
WITH was AS (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(states)s::smallint[]) AS u (id, file_delete_state)
),

settled AS (
    UPDATE workunit AS w
    SET
        file_delete_state = %(target)s::smallint,
        file_delete_after = NULL
    FROM was
    WHERE
        w.id = was.id
        AND w.file_delete_state = was.file_delete_state
        AND w.file_delete_state = any(%(sources)s::smallint[])
    RETURNING w.id, was.file_delete_state AS source
)

INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
SELECT
    %(now)s::timestamptz,
    id,
    %(axis)s::smallint,
    source,
    %(target)s::smallint,
    %(because)s::smallint,
    %(by)s::smallint
FROM settled
WHERE %(ledger)s::boolean
