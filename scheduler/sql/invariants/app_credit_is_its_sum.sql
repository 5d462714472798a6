-- Every app's total credit is the sum of its credit entries.
SELECT
    'app ' || app.id AS name,
    'total ' || app.total_credit || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM app
LEFT JOIN (
    SELECT
        app_id,
        sum(amount) AS amount
    FROM credit_entry
    GROUP BY app_id
) AS paid ON app.id = paid.app_id
WHERE app.total_credit <> coalesce(paid.amount, 0)
