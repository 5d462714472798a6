-- Every host's total credit is the sum of its credit entries.
SELECT
    'host ' || host.id AS name,
    'total ' || host.total_credit || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM host
LEFT JOIN (
    SELECT
        host_id,
        sum(amount) AS amount
    FROM credit_entry
    GROUP BY host_id
) AS paid ON host.id = paid.host_id
WHERE host.total_credit <> coalesce(paid.amount, 0)
