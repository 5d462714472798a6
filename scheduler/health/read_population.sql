-- Counts accounts and hosts with credit and new ones, and sums the recent average credit.
SELECT
    people.with_recent_credit AS users_with_recent_credit,
    people.with_credit AS users_with_credit,
    people.registered AS users_registered,
    people.expavg_credit,
    machines.with_recent_credit AS hosts_with_recent_credit,
    machines.with_credit AS hosts_with_credit,
    machines.registered AS hosts_registered
FROM (
    SELECT
        count(*) FILTER (WHERE account.expavg_credit > 1) AS with_recent_credit,
        count(*) FILTER (WHERE account.total_credit > 1) AS with_credit,
        count(*) FILTER (WHERE account.created_at > %(since)s::timestamptz) AS registered,
        coalesce(sum(account.expavg_credit), 0) AS expavg_credit
    FROM account
) AS people
CROSS JOIN (
    SELECT
        count(*) FILTER (WHERE host.expavg_credit > 1) AS with_recent_credit,
        count(*) FILTER (WHERE host.total_credit > 1) AS with_credit,
        count(*) FILTER (WHERE host.created_at > %(since)s::timestamptz) AS registered
    FROM host
    WHERE host.merged_into_id IS NULL
) AS machines
