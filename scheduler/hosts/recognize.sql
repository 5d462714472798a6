-- Finds the account of each caller by the hash of its key, and the host by the id in the request.
-- There is no row for a caller with an unknown key.  A column that becomes a field of `Caller` has
-- the name of the field.
SELECT
    caller.position,
    a.id AS account_id,
    a.email,
    a.name,
    a.is_active,
    a.cross_project_id,
    a.created_at AS account_created_at,
    a.total_credit::double precision AS account_total_credit,
    a.expavg_credit AS account_expavg_credit,
    a.project_prefs,
    a.global_prefs,
    a.global_prefs_mod_time,
    a.venue AS account_venue,
    a.team_id,
    t.name AS team_name,
    k.kind = 1 AS is_strong,
    md5(a.password) AS password_digest,
    k.revoked_at,
    h.id AS host_id,
    h.account_id AS host_account_id,
    h.rpc_seqno,
    h.denied,
    h.venue,
    h.created_at AS host_created_at,
    h.total_credit::double precision AS host_total_credit,
    h.expavg_credit AS host_expavg_credit,
    h.max_in_progress,
    h.own_max_held,
    h.own_max_cpus,
    h.last_decisions,
    flags.any_sensor,
    flags.any_broadcast,
    flags.any_targeted,
    flags.catalog_sign,
    for_host.any_for_host,
    (claimed.id IS DISTINCT FROM h.id) AS was_merged,
    -- The host is locked until the transaction ends, so that each host has one RPC at a time.  A
    -- host of another account is not locked, because anyone could send its id to block its client.
    CASE
        WHEN h.account_id = a.id
            THEN pg_try_advisory_xact_lock(hashtextextended('host ' || h.id::text, 0))
    END AS locked
FROM unnest(%(key_hashes)s::text[], %(host_ids)s::bigint[])
    WITH ORDINALITY AS caller (key_hash, host_id, position)
-- A strong key is of kind 1; a submission key (3) cannot attach a client.
INNER JOIN account_key AS k ON caller.key_hash = k.key_hash AND k.kind <> 3
INNER JOIN account AS a ON k.account_id = a.id
LEFT JOIN team AS t ON a.team_id = t.id
LEFT JOIN host AS claimed ON caller.host_id = claimed.id
-- A deleted host refers to itself: its client gets another row.
LEFT JOIN host AS h
    ON
        h.id = coalesce(claimed.merged_into_id, claimed.id)
        AND claimed.merged_into_id IS DISTINCT FROM claimed.id
-- Flags for rare kinds of work: an RPC runs further statements only if such work exists.
CROSS JOIN (
    SELECT
        EXISTS (
            SELECT FROM app WHERE app.non_cpu_intensive AND NOT app.deprecated
        ) AS any_sensor,
        EXISTS (
            SELECT FROM workunit
            WHERE workunit.broadcast AND workunit.assimilate_state = {{AssimilateState.INIT}}
        ) AS any_broadcast,
        EXISTS (
            SELECT FROM app
            CROSS JOIN LATERAL (
                SELECT FROM result AS r
                WHERE
                    r.app_id = app.id
                    AND r.server_state = {{ServerState.UNSENT}}
                    -- Queues have streams of their own.
                    AND r.target_kind BETWEEN {{Target.HOST}} AND {{Target.TEAM}}
                LIMIT 1
            ) AS targeted
        ) AS any_targeted,
        -- The change token of the app catalog, which dispatch caches.  It changes when a row of
        -- these tables is written or deleted, because each version of a row has its own
        -- transaction and position.
        (
            SELECT
                coalesce(
                    sum(
                        hashtextextended(concat_ws(' ', kept.kind, kept.place, kept.writer), 0)
                    )::text,
                    ''
                )
            FROM (
                SELECT 1 AS kind, app.ctid AS place, app.xmin AS writer FROM app
                UNION ALL
                SELECT 2, v.ctid, v.xmin FROM app_version AS v
                UNION ALL
                SELECT 3, f.ctid, f.xmin FROM app_version_file AS f
                UNION ALL
                SELECT 4, p.ctid, p.xmin FROM platform AS p
                UNION ALL
                SELECT 5, c.ctid, c.xmin FROM plan_class AS c
                UNION ALL
                SELECT 6, q.ctid, q.xmin FROM queue AS q
            ) AS kept
        ) AS catalog_sign
) AS flags
CROSS JOIN LATERAL (
    SELECT
        EXISTS (
            SELECT FROM trickle_down AS t
            WHERE t.host_id = h.id AND t.sent_at IS NULL
            -- Forces a lookup by host, instead of a hash of the whole table.
            OFFSET 0
        )
        OR EXISTS (
            SELECT FROM file_request AS f
            WHERE f.host_id = h.id AND f.state < 2
            OFFSET 0
        ) AS any_for_host
) AS for_host
