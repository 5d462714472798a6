-- Every account has exactly one row of allauth's e-mail addresses, with the account's address.
SELECT
    'account ' || account.id AS name,
    'address ' || account.email || ', rows '
    || coalesce(string_agg(known.email, ', ' ORDER BY known.id), 'none') AS detail
FROM account
LEFT JOIN account_emailaddress AS known ON account.id = known.user_id
GROUP BY account.id, account.email
HAVING
    count(known.id) <> 1
    OR bool_or(known.email <> account.email OR NOT known."primary")
ORDER BY account.id
