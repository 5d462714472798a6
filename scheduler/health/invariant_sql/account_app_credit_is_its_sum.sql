-- Every account's credit for an app is the sum of its credit entries.
SELECT
    'account ' || coalesce(kept.account_id, paid.account_id)
    || ', app ' || coalesce(kept.app_id, paid.app_id) AS name,
    'total ' || coalesce(kept.total, 0) || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM account_app_credit AS kept
FULL OUTER JOIN (
    SELECT
        account_id,
        app_id,
        sum(amount) AS amount
    FROM credit_entry
    WHERE app_id IS NOT NULL
    GROUP BY account_id, app_id
) AS paid ON kept.account_id = paid.account_id AND kept.app_id = paid.app_id
WHERE coalesce(kept.total, 0) <> coalesce(paid.amount, 0)
