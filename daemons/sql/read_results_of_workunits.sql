-- Read all results of locked workunits; run after the lock, so that it sees all earlier reports.
-- Identifying columns come first, then the columns that the transitioner's rules use.
-- Unneeded times are not read, because decoding a time takes longer than judging a workunit.
SELECT
    id,
    workunit_id,
    attempt,
    server_state,
    outcome,
    validate_state,
    file_delete_state,
    exit_status,
    CASE
        WHEN
            outcome = %(no_reply)s::smallint
            OR (outcome = %(success)s::smallint AND received_at > credit_deadline)
            THEN credit_deadline
    END AS credit_deadline,
    CASE
        WHEN
            (outcome = %(success)s::smallint AND received_at > credit_deadline)
            OR workunit_id = any(%(delayed_ids)s::bigint[])
            THEN received_at
    END AS received_at
-- One look-up per row: while a new table has no statistics, a list of ids may read the whole table.
FROM unnest(%(workunit_ids)s::bigint[]) AS due (due_id)
CROSS JOIN LATERAL (SELECT * FROM result WHERE workunit_id = due.due_id OFFSET 0) AS result
ORDER BY workunit_id, id
