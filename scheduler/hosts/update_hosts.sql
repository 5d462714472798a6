-- Writes the changes that RPCs make to their hosts.  These are the description of the computer, the
-- sequence number, the record of each app version (results sent today, quota, consecutive valid
-- results, results to be counted), and the acknowledgement of results that a client lists for the
-- first time.  To exclude deadlocks, hosts are locked in ascending order and before their records, and results that other
-- transactions have locked are skipped.
WITH described AS (
    SELECT *
    FROM unnest(
        %(host_ids)s::bigint[],
        %(rpc_seqno)s::integer[],
        %(host_cpid)s::text[],
        %(domain_name)s::text[],
        %(ip_addr)s::text[],
        %(timezone)s::integer[],
        %(platform_name)s::text[],
        %(client_version)s::integer[],
        %(p_ncpus)s::integer[],
        %(p_vendor)s::text[],
        %(p_model)s::text[],
        %(p_fpops)s::double precision[],
        %(p_iops)s::double precision[],
        %(p_membw)s::double precision[],
        %(m_nbytes)s::double precision[],
        %(m_cache)s::double precision[],
        %(m_swap)s::double precision[],
        %(d_total)s::double precision[],
        %(d_free)s::double precision[],
        %(os_name)s::text[],
        %(os_version)s::text[],
        %(n_bwup)s::double precision[],
        %(n_bwdown)s::double precision[],
        %(on_frac)s::double precision[],
        %(active_frac)s::double precision[],
        %(gpu_active_frac)s::double precision[],
        %(p_features)s::text[],
        %(capabilities)s::jsonb[],
        %(last_decisions)s::jsonb[]
    ) AS u (
        host_id, rpc_seqno, host_cpid, domain_name, last_ip_addr, timezone,
        platform_name, client_version, p_ncpus, p_vendor, p_model, p_fpops, p_iops,
        p_membw, m_nbytes, m_cache, m_swap, d_total, d_free, os_name, os_version,
        n_bwup, n_bwdown, on_frac, active_frac, gpu_active_frac, p_features,
        capabilities, last_decisions
    )
),

locked AS (
    SELECT h.id
    FROM host AS h
    WHERE h.id = ANY(%(host_ids)s::bigint[])
    ORDER BY h.id
    FOR NO KEY UPDATE
),

updated AS (
    UPDATE host
    SET
        rpc_at = %(now)s::timestamptz,
        rpc_seqno = described.rpc_seqno,
        host_cpid = described.host_cpid,
        domain_name = described.domain_name,
        last_ip_addr = described.last_ip_addr,
        timezone = described.timezone,
        platform_name = described.platform_name,
        client_version = described.client_version,
        p_ncpus = described.p_ncpus,
        p_vendor = described.p_vendor,
        p_model = described.p_model,
        p_fpops = described.p_fpops,
        p_iops = described.p_iops,
        p_membw = described.p_membw,
        m_nbytes = described.m_nbytes,
        m_cache = described.m_cache,
        m_swap = described.m_swap,
        d_total = described.d_total,
        d_free = described.d_free,
        os_name = described.os_name,
        os_version = described.os_version,
        n_bwup = described.n_bwup,
        n_bwdown = described.n_bwdown,
        on_frac = described.on_frac,
        active_frac = described.active_frac,
        gpu_active_frac = described.gpu_active_frac,
        p_features = described.p_features,
        capabilities = described.capabilities,
        last_decisions = described.last_decisions
    FROM locked
    INNER JOIN described ON locked.id = described.host_id
    WHERE host.id = locked.id
    RETURNING host.id
),

updated_records AS (
    INSERT INTO host_app_version AS record (
        host_id, app_version_id, results_today, quota_day, max_results_per_day,
        uncounted_reports, uncounted_errors
    )
    SELECT
        updated.id,
        change.app_version_id,
        change.sent,
        %(today)s::date,
        change.quota_after,
        change.reported,
        change.errors
    FROM updated
    INNER JOIN unnest(
        %(record_host_ids)s::bigint[],
        %(app_version_ids)s::bigint[],
        %(sent)s::integer[],
        %(quotas_after)s::integer[],
        %(reported)s::integer[],
        %(errors)s::integer[]
    ) AS change (host_id, app_version_id, sent, quota_after, reported, errors)
        ON updated.id = change.host_id
    ORDER BY updated.id, change.app_version_id
    ON CONFLICT (host_id, app_version_id) DO UPDATE
    SET
        results_today = excluded.results_today
        + CASE WHEN record.quota_day = excluded.quota_day THEN record.results_today ELSE 0 END,
        quota_day = excluded.quota_day,
        -- If the quota changed since this RPC read it, the newer quota is kept.
        max_results_per_day = CASE
            WHEN record.max_results_per_day = (
                (%(quotas_before)s::integer[])[
                    array_position(
                        %(pairs)s::text[], record.host_id || ':' || record.app_version_id
                    )
                ]
            ) THEN excluded.max_results_per_day
            ELSE record.max_results_per_day
        END,
        consecutive_valid = CASE
            WHEN (%(had_errors)s::boolean[])[
                array_position(%(pairs)s::text[], record.host_id || ':' || record.app_version_id)
            ] THEN 0
            ELSE record.consecutive_valid
        END,
        uncounted_reports = record.uncounted_reports + excluded.uncounted_reports,
        uncounted_errors = record.uncounted_errors + excluded.uncounted_errors
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
                -- The state IN_PROGRESS.  No partial index matches this expression, so that the row
                -- is found by its id.
                AND listed.server_state * 10 + listed.outcome = {{ResultState.IN_PROGRESS}}
                AND listed.acknowledged_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED
        )
    )
