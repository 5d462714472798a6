-- Every team's total credit is the sum of its credit entries.
SELECT
    'team ' || team.id AS name,
    'total ' || team.total_credit || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM team
LEFT JOIN (
    SELECT
        team_id,
        sum(amount) AS amount
    FROM credit_entry
    GROUP BY team_id
) AS paid ON team.id = paid.team_id
WHERE team.total_credit <> coalesce(paid.amount, 0)
