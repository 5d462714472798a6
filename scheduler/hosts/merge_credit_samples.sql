-- Adds the samples of credit of a merged host to those of the kept host.
WITH merged AS (
    DELETE FROM credit_sample
    WHERE kind = 2 AND holder_id = %(merged_id)s::bigint
    RETURNING day, total_credit
),

kept AS (
    SELECT day, total_credit
    FROM credit_sample
    WHERE kind = 2 AND holder_id = %(kept_id)s::bigint
),

sampled AS (
    SELECT merged.day FROM merged
    UNION
    SELECT kept.day FROM kept
)

INSERT INTO credit_sample (kind, holder_id, day, total_credit)
SELECT
    2 AS kind,
    %(kept_id)s::bigint AS holder_id,
    sampled.day,
    coalesce(
        (
            SELECT merged.total_credit FROM merged
            WHERE merged.day <= sampled.day
            ORDER BY merged.day DESC
            LIMIT 1
        ),
        0
    ) + coalesce(
        (
            SELECT kept.total_credit FROM kept
            WHERE kept.day <= sampled.day
            ORDER BY kept.day DESC
            LIMIT 1
        ),
        0
    ) AS total_credit
FROM sampled
WHERE EXISTS (SELECT FROM merged)
ON CONFLICT (kind, holder_id, day) DO UPDATE
SET total_credit = excluded.total_credit
