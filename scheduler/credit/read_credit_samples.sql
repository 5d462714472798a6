-- Reads the samples of a holder and of the project since a day, each with the last one before it.
SELECT
    sample.kind,
    sample.day,
    sample.total_credit
FROM (
    VALUES (%(kind)s::smallint, %(holder_id)s::bigint), (0::smallint, 0::bigint)
) AS holder (kind, holder_id)
-- OFFSET 0 makes PostgreSQL look up the samples of each holder, also while the table is empty.
CROSS JOIN LATERAL (
    SELECT
        s.kind,
        s.day,
        s.total_credit
    FROM credit_sample AS s
    WHERE
        s.kind = holder.kind
        AND s.holder_id = holder.holder_id
        AND s.day >= coalesce(
            (
                SELECT max(earlier.day)
                FROM credit_sample AS earlier
                WHERE
                    earlier.kind = holder.kind
                    AND earlier.holder_id = holder.holder_id
                    AND earlier.day < %(since)s::date
            ),
            %(since)s::date
        )
    OFFSET 0
) AS sample
ORDER BY sample.day, sample.kind
