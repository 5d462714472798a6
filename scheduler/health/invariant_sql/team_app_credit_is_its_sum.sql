-- Every team's credit for an app is the sum of its counted credit entries.
SELECT
    'team ' || coalesce(kept.team_id, paid.team_id)
    || ', app ' || coalesce(kept.app_id, paid.app_id) AS name,
    'total ' || coalesce(kept.total, 0) || ', entries ' || coalesce(paid.amount, 0) AS detail
FROM team_app_credit AS kept
FULL OUTER JOIN (
    SELECT
        team_id,
        app_id,
        sum(amount) AS amount
    FROM credit_entry
    WHERE
        app_id IS NOT NULL
        AND team_id IS NOT NULL
        AND id <= (SELECT coalesce(max(counted_to), 0) FROM app_credit_cursor)
    GROUP BY team_id, app_id
) AS paid ON kept.team_id = paid.team_id AND kept.app_id = paid.app_id
WHERE coalesce(kept.total, 0) <> coalesce(paid.amount, 0)
