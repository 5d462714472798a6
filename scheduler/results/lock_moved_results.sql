-- Locks the workunits of the next results whose deadlines an outage may move, in ascending id.
WITH next AS (
    SELECT id, workunit_id, server_state, outcome, sent_at, report_deadline, credit_deadline
    FROM result
    WHERE id > %(after)s::bigint
    ORDER BY id
    LIMIT %(limit)s::bigint
),

concerned AS (
    SELECT workunit_id
    FROM next
    WHERE
        (
            server_state = {{ServerState.IN_PROGRESS}}
            OR (server_state = {{ServerState.OVER}} AND outcome = {{Outcome.NO_REPLY}})
        )
        AND sent_at < %(ended_at)s::timestamptz
        AND greatest(report_deadline, credit_deadline) > %(began_at)s::timestamptz
),

locked AS (
    SELECT id
    FROM workunit
    WHERE id IN (SELECT workunit_id FROM concerned)
    ORDER BY id
    FOR NO KEY UPDATE
)

SELECT
    (SELECT max(id) FROM next) AS up_to,
    (SELECT array_agg(id) FROM locked) AS workunit_ids
