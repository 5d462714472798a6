-- Counts unsent workunits for which no active host qualifies, by cause.
-- A host does not qualify if it has had a result of the workunit, or was refused since the newest
-- version.  `dispatch.rules.sendability` defines active hosts.
SELECT
    count(waiting.id) AS unsent,
    min(about.hosts) AS hosts,
    min(about.accounts) AS accounts,
    min(about.last_contact_at) AS last_contact_at,
    count(waiting.id) FILTER (WHERE waiting.newest_at IS NULL) AS unversioned,
    count(waiting.id) FILTER (
        WHERE waiting.one_result_per = 'account' AND blocked.turns >= about.hosts
    ) AS account_short,
    count(waiting.id) FILTER (
        WHERE waiting.one_result_per = 'host' AND blocked.turns >= about.hosts
    ) AS host_short,
    coalesce(
        max(waiting.min_quorum) FILTER (WHERE blocked.turns >= about.hosts), 0
    ) AS quorum,
    count(waiting.id) FILTER (
        WHERE blocked.turns = 0 AND blocked.hosts >= about.hosts
    ) AS all_refused,
    count(waiting.id) FILTER (
        WHERE blocked.turns BETWEEN 1 AND about.hosts - 1 AND blocked.hosts >= about.hosts
    ) AS no_host_left,
    mode() WITHIN GROUP (ORDER BY blocked.reason) FILTER (
        WHERE blocked.hosts >= about.hosts
    ) AS reason
FROM (
    SELECT
        count(*) AS hosts,
        count(DISTINCT host.account_id) AS accounts,
        max(host.rpc_at) AS last_contact_at
    FROM host
    WHERE
        host.rpc_at > %(seen_since)s::timestamptz
        AND NOT host.denied
        AND host.merged_into_id IS NULL
) AS about
LEFT JOIN (
    SELECT
        workunit.id,
        workunit.min_quorum,
        app.one_result_per,
        app.retry_same_account_after,
        newest.created_at AS newest_at
    FROM workunit
    INNER JOIN app ON workunit.app_id = app.id
    CROSS JOIN LATERAL (
        SELECT max(app_version.created_at) AS created_at
        FROM app_version
        INNER JOIN platform ON app_version.platform_id = platform.id
        WHERE
            app_version.app_id = workunit.app_id
            AND NOT app_version.deprecated
            AND platform.name <> %(anonymous)s::text
    ) AS newest
    WHERE workunit.id = any(%(workunit_ids)s::bigint[])
) AS waiting ON TRUE
LEFT JOIN LATERAL (
    SELECT
        count(*) AS hosts,
        count(*) FILTER (WHERE barred.had_turn) AS turns,
        max(barred.reason) FILTER (WHERE NOT barred.had_turn) AS reason
    FROM (
        SELECT
            touched.host_id,
            bool_or(touched.had_turn) AS had_turn,
            max(touched.reason) AS reason
        FROM (
            SELECT
                refusal.host_id,
                FALSE AS had_turn,
                refusal.reason
            FROM refusal
            WHERE refusal.workunit_id = waiting.id AND refusal.at >= waiting.newest_at
            UNION ALL
            SELECT
                own.id AS host_id,
                TRUE AS had_turn,
                NULL AS reason
            FROM result
            INNER JOIN host AS own ON result.host_id = own.id
            WHERE
                waiting.one_result_per = 'host'
                AND result.workunit_id = waiting.id
                AND result.sent_at IS NOT NULL
                AND (
                    result.server_state = {{ServerState.IN_PROGRESS}}
                    OR result.outcome = {{Outcome.SUCCESS}}
                    OR coalesce(result.received_at, result.report_deadline)
                    + waiting.retry_same_account_after > %(now)s::timestamptz
                )
            UNION ALL
            SELECT
                account_host.id AS host_id,
                TRUE AS had_turn,
                NULL AS reason
            FROM result
            INNER JOIN host AS account_host ON result.account_id = account_host.account_id
            WHERE
                waiting.one_result_per = 'account'
                AND result.workunit_id = waiting.id
                AND result.sent_at IS NOT NULL
                AND (
                    result.server_state = {{ServerState.IN_PROGRESS}}
                    OR result.outcome = {{Outcome.SUCCESS}}
                    OR coalesce(result.received_at, result.report_deadline)
                    + waiting.retry_same_account_after > %(now)s::timestamptz
                )
        ) AS touched
        INNER JOIN host ON touched.host_id = host.id
        WHERE
            host.rpc_at > %(seen_since)s::timestamptz
            AND NOT host.denied
            AND host.merged_into_id IS NULL
        GROUP BY touched.host_id
    ) AS barred
) AS blocked ON TRUE
