-- Debit apps with the credit that they granted; store the new averages of locked app versions.
WITH learned AS (
    UPDATE app_version AS version
    SET
        pfc_n = lesson.pfc_n,
        pfc_avg = lesson.pfc_avg
    FROM unnest(
        %(version_ids)s::bigint[],
        %(pfc_ns)s::double precision[],
        %(pfc_avgs)s::double precision[]
    ) AS lesson (id, pfc_n, pfc_avg)
    WHERE version.id = lesson.id
),

locked AS (
    SELECT id
    FROM app
    WHERE id = any(%(app_ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE
)

UPDATE app
SET total_credit = app.total_credit + charge.granted
FROM unnest(%(app_ids)s::bigint[], %(granted)s::numeric[]) AS charge (id, granted)
INNER JOIN locked ON charge.id = locked.id
WHERE app.id = charge.id
