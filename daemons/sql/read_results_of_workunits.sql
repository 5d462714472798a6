-- All results of locked workunits; a statement of its own, to see what was reported before the lock.
-- First what tells one from another, then the facts that many have in common: see the transitioner.
-- Times that the judgement does not ask for are left out: reading one takes longer than judging it.
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
-- One look-up each: where nothing is known of a young table, a list may have all of it read.
FROM unnest(%(workunit_ids)s::bigint[]) AS due (due_id)
CROSS JOIN LATERAL (SELECT * FROM result WHERE workunit_id = due.due_id OFFSET 0) AS result
ORDER BY workunit_id, id
