-- Counts workunits by the reason why they cannot be revalidated; returns the ids of those that can.
WITH looked_at AS (
    SELECT
        w.id,
        CASE
            WHEN w.assimilate_state = {{AssimilateState.DONE}} THEN 'assimilated'
            WHEN w.error_mask <> 0 THEN 'failed'
            WHEN w.revalidate_requested_at IS NOT NULL THEN 'asked'
            WHEN NOT coalesce(judged.any_judged, FALSE) THEN 'unjudged'
            WHEN judged.any_deleted THEN 'deleted'
            ELSE 'ready'
        END AS said
    FROM workunit AS w
    LEFT JOIN LATERAL (
        SELECT
            bool_or(
                r.validate_state IN (
                    {{ValidateState.VALID}},
                    {{ValidateState.INVALID}},
                    {{ValidateState.INCONCLUSIVE}}
                )
            ) AS any_judged,
            bool_or(r.validate_state = {{ValidateState.INVALID}}) AS any_invalid,
            bool_or(r.file_delete_state <> {{FileDeleteState.INIT}}) AS any_deleted,
            bool_or(
                r.received_at >= coalesce(%(since)s::timestamptz, '-infinity')
                AND r.received_at < coalesce(%(until)s::timestamptz, 'infinity')
            ) AS any_in_time
        FROM result AS r
        -- Only successes: a result with a missing output has the outcome VALIDATE_ERROR.
        WHERE
            r.workunit_id = w.id
            AND r.server_state = {{ServerState.OVER}}
            AND r.outcome = {{Outcome.SUCCESS}}
    ) AS judged ON TRUE
    WHERE
        w.id = any(%(ids)s::bigint[])
        AND (NOT %(only_invalid)s::boolean OR coalesce(judged.any_invalid, FALSE))
        AND (
            coalesce(%(since)s::timestamptz, %(until)s::timestamptz) IS NULL
            OR coalesce(judged.any_in_time, FALSE)
        )
)

SELECT
    said,
    count(*) AS number,
    array_agg(id ORDER BY id) FILTER (WHERE said = 'ready') AS ids
FROM looked_at
GROUP BY said
ORDER BY said
