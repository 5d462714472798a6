-- Finds the newest host of an account that matches the client's computer (PROTOCOL 2.5).  A host
-- matches if its cross-project id and hardware are equal, or, unless several clients may share a
-- computer, if its name, address and hardware are equal.  A match by cross-project id has priority.
SELECT
    h.id AS host_id,
    h.denied,
    h.venue,
    h.created_at AS host_created_at,
    h.total_credit::double precision AS host_total_credit,
    h.expavg_credit AS host_expavg_credit,
    h.max_in_progress,
    h.own_max_held,
    h.own_max_cpus,
    h.last_decisions
FROM host AS h
WHERE
    h.account_id = %(account_id)s::bigint
    AND h.merged_into_id IS NULL
    AND (
        (
            h.host_cpid = %(host_cpid)s::text
            AND h.host_cpid <> ''
            AND h.p_ncpus = %(p_ncpus)s::integer
            AND h.p_vendor = %(p_vendor)s::text
            AND h.p_model = %(p_model)s::text
            AND h.os_name = %(os_name)s::text
            AND h.os_version = %(os_version)s::text
        )
        OR (
            NOT %(allow_multiple_clients)s::boolean
            AND h.domain_name = %(domain_name)s::text
            AND h.domain_name <> ''
            AND h.last_ip_addr = %(ip_addr)s::text
            AND h.os_name = %(os_name)s::text
            AND h.p_model = %(p_model)s::text
            AND h.m_nbytes = %(m_nbytes)s::double precision
        )
    )
ORDER BY (h.host_cpid = %(host_cpid)s::text) DESC, h.id DESC
LIMIT 1
