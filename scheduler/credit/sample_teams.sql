-- Keeps the credit of each team whose credit differs from its newest sample.
INSERT INTO credit_sample (kind, holder_id, day, total_credit)
SELECT
    3 AS kind,
    team.id,
    %(day)s::date AS day,
    team.total_credit
FROM team
LEFT JOIN LATERAL (
    SELECT sample.total_credit
    FROM credit_sample AS sample
    WHERE sample.kind = 3 AND sample.holder_id = team.id
    ORDER BY sample.day DESC
    LIMIT 1
) AS newest ON TRUE
WHERE team.deleted_at IS NULL AND team.total_credit <> coalesce(newest.total_credit, 0)
ON CONFLICT (kind, holder_id, day) DO NOTHING
