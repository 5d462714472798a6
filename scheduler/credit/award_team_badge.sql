-- Awards a badge to the teams that are within the bounds of its rule.
INSERT INTO team_badge (badge_id, team_id, created_at)
SELECT
    %(badge_id)s::bigint,
    team.id,
    %(now)s::timestamptz
FROM team
WHERE
    team.deleted_at IS NULL
    AND team.total_credit > 0
    AND team.total_credit >= %(min_total)s::numeric
    AND team.expavg_credit >= %(min_recent)s::float8
    AND team.created_at <= %(created_until)s::timestamptz
    AND NOT EXISTS (
        SELECT 1
        FROM team_badge AS award
        WHERE award.badge_id = %(badge_id)s::bigint AND award.team_id = team.id
    )
ON CONFLICT (badge_id, team_id) DO NOTHING
