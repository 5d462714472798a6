-- Counts what a revalidation of workunits withdraws (answers and verdicts), and the credited results.
-- The subquery is read for each workunit; with a join, the planner could scan all results.
SELECT
    coalesce(sum(judged.canonical), 0)::bigint AS canonical,
    coalesce(sum(judged.valid), 0)::bigint AS valid,
    coalesce(sum(judged.invalid), 0)::bigint AS invalid,
    coalesce(sum(judged.inconclusive), 0)::bigint AS inconclusive,
    coalesce(sum(judged.credited), 0)::bigint AS credited
FROM workunit AS w
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE r.id = w.canonical_result_id) AS canonical,
        count(*) FILTER (WHERE r.validate_state = {{ValidateState.VALID}}) AS valid,
        count(*) FILTER (WHERE r.validate_state = {{ValidateState.INVALID}}) AS invalid,
        count(*) FILTER (WHERE r.validate_state = {{ValidateState.INCONCLUSIVE}}) AS inconclusive,
        count(*) FILTER (WHERE r.granted_credit > 0) AS credited
    FROM result AS r
    WHERE
        r.workunit_id = w.id
        AND r.server_state = {{ServerState.OVER}}
        AND r.outcome = {{Outcome.SUCCESS}}
) AS judged
WHERE w.id = any(%(ids)s::bigint[])
