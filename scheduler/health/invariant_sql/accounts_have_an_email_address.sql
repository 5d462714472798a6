-- Every account has exactly one row of allauth's e-mail addresses, with the account's address.
SELECT
    'account ' || account.id AS name,
    'address ' || account.email || ', rows '
    || coalesce(string_agg(address.email, ', ' ORDER BY address.id), 'none') AS detail
FROM account
LEFT JOIN account_emailaddress AS address ON account.id = address.user_id
GROUP BY account.id, account.email
HAVING
    count(address.id) <> 1
    OR bool_or(address.email <> account.email OR NOT address."primary")
ORDER BY account.id
