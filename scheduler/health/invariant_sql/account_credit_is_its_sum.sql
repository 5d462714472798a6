-- Every account's total credit is the sum of its credit entries.
SELECT
    'account ' || account.id AS name,
    'total ' || account.total_credit || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM account
LEFT JOIN (
    SELECT
        account_id,
        sum(amount) AS amount
    FROM credit_entry
    GROUP BY account_id
) AS paid ON account.id = paid.account_id
WHERE account.total_credit <> coalesce(paid.amount, 0)
