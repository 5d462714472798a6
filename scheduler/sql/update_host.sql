-- Writes what an RPC taught of a host: what the client said of its computer and the sequence number
-- that it reached; by app version what was sent today, and how its quota changed; and which results
-- the client lists for the first time.  The host's row is locked before its records are (they hang
-- on it), and results that others hold are passed over: nothing here waits the wrong way round.
WITH touched AS (
    UPDATE host
    SET
        rpc_seqno = %(rpc_seqno)s::integer,
        rpc_at = %(now)s::timestamptz,
        host_cpid = %(host_cpid)s::text,
        domain_name = %(domain_name)s::text,
        last_ip_addr = %(ip_addr)s::text,
        timezone = %(timezone)s::integer,
        platform_name = %(platform_name)s::text,
        client_version = %(client_version)s::integer,
        p_ncpus = %(p_ncpus)s::integer,
        p_vendor = %(p_vendor)s::text,
        p_model = %(p_model)s::text,
        p_fpops = %(p_fpops)s::double precision,
        p_iops = %(p_iops)s::double precision,
        p_membw = %(p_membw)s::double precision,
        m_nbytes = %(m_nbytes)s::double precision,
        m_cache = %(m_cache)s::double precision,
        m_swap = %(m_swap)s::double precision,
        d_total = %(d_total)s::double precision,
        d_free = %(d_free)s::double precision,
        os_name = %(os_name)s::text,
        os_version = %(os_version)s::text,
        n_bwup = %(n_bwup)s::double precision,
        n_bwdown = %(n_bwdown)s::double precision,
        on_frac = %(on_frac)s::double precision,
        active_frac = %(active_frac)s::double precision,
        gpu_active_frac = %(gpu_active_frac)s::double precision,
        p_features = %(p_features)s::text,
        capabilities = %(capabilities)s::jsonb,
        last_decisions = %(last_decisions)s::jsonb
    WHERE id = %(host_id)s::bigint
    RETURNING id
),

learned AS (
    INSERT INTO host_app_version AS known (
        host_id, app_version_id, results_today, quota_day, max_results_per_day
    )
    SELECT
        touched.id,
        lesson.app_version_id,
        lesson.sent,
        %(today)s::date,
        lesson.quota_after
    FROM touched
    CROSS JOIN unnest(
        %(app_version_ids)s::bigint[],
        %(sent)s::integer[],
        %(quotas_after)s::integer[]
    ) AS lesson (app_version_id, sent, quota_after)
    ORDER BY lesson.app_version_id
    ON CONFLICT (host_id, app_version_id) DO UPDATE
    SET
        results_today = excluded.results_today
        + CASE WHEN known.quota_day = excluded.quota_day THEN known.results_today ELSE 0 END,
        quota_day = excluded.quota_day,
        -- A verdict that came meanwhile knows more than what this RPC read before.
        max_results_per_day = CASE
            WHEN known.max_results_per_day = (
                (%(quotas_before)s::integer[])[
                    array_position(%(app_version_ids)s::bigint[], known.app_version_id)
                ]
            ) THEN excluded.max_results_per_day
            ELSE known.max_results_per_day
        END,
        consecutive_valid = CASE
            WHEN (%(had_errors)s::boolean[])[
                array_position(%(app_version_ids)s::bigint[], known.app_version_id)
            ] THEN 0
            ELSE known.consecutive_valid
        END
)

UPDATE result AS r
SET acknowledged_at = %(now)s::timestamptz
WHERE
    r.id = ANY(
        array(
            SELECT listed.id
            FROM result AS listed
            WHERE
                listed.id = ANY(%(acknowledged_ids)s::bigint[])
                AND listed.server_state = 4
                AND listed.acknowledged_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED
        )
    )
