-- Counts what belongs to accounts that may be blocked: hosts, results in progress, valid API tokens
-- and unfinished batches.
SELECT
    (
        SELECT count(*)
        FROM host AS h
        WHERE h.account_id = any(%(account_ids)s::bigint[]) AND h.merged_into_id IS NULL
    ) AS hosts,
    (
        SELECT coalesce(sum(held.results), 0)::bigint
        FROM host AS h
        CROSS JOIN LATERAL (
            SELECT count(*) AS results
            FROM result AS r
            WHERE r.host_id = h.id AND r.server_state = {{ServerState.IN_PROGRESS}}
        ) AS held
        WHERE h.account_id = any(%(account_ids)s::bigint[])
    ) AS results,
    (
        SELECT count(*)
        FROM api_token AS t
        WHERE
            t.account_id = any(%(account_ids)s::bigint[])
            AND t.revoked_at IS NULL
            AND (t.expire_at IS NULL OR t.expire_at > %(now)s::timestamptz)
    ) AS tokens,
    (
        SELECT count(*)
        FROM batch AS b
        WHERE
            b.submitter_id = any(%(account_ids)s::bigint[])
            AND b.completed_at IS NULL
            AND b.retired_at IS NULL
    ) AS batches
