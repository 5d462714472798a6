-- Every result's granted credit is the sum of its credit entries.
SELECT
    r.name,
    'granted ' || r.granted_credit || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM result AS r
LEFT JOIN (
    SELECT
        result_id,
        sum(amount) AS amount
    FROM credit_entry
    GROUP BY result_id
) AS paid ON r.id = paid.result_id
WHERE r.granted_credit <> coalesce(paid.amount, 0)
