-- Every app's total credit is the sum of its credit entries, and every entry belongs to an existing app.
SELECT
    'app ' || coalesce(app.id, paid.app_id) AS name,
    'total ' || coalesce(app.total_credit, 0) || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM app
FULL JOIN (
    SELECT
        app_id,
        sum(amount) AS amount
    FROM credit_entry
    WHERE app_id IS NOT NULL
    GROUP BY app_id
) AS paid ON app.id = paid.app_id
WHERE app.id IS NULL OR app.total_credit <> coalesce(paid.amount, 0)
