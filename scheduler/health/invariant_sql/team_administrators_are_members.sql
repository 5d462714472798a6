-- Every administrator of a team is a member of it, and is not its founder.
SELECT
    'account ' || account.id AS name,
    'administers team ' || team.id
    || ', member of team ' || coalesce(account.team_id::text, 'none')
    || ', founder ' || coalesce(team.founder_id::text, 'none') AS detail
FROM team_administrator AS administrator
INNER JOIN account ON administrator.account_id = account.id
INNER JOIN team ON administrator.team_id = team.id
WHERE account.team_id IS DISTINCT FROM team.id OR team.founder_id = account.id
ORDER BY account.id
