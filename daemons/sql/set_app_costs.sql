-- Set the measured cost per estimated operation of apps, locked in ascending id, if it changed.
WITH cost AS (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(costs)s::double precision[]) AS c (id, min_avg_pfc)
),

locked AS (
    SELECT app.id
    FROM app
    INNER JOIN cost ON app.id = cost.id
    WHERE app.min_avg_pfc <> cost.min_avg_pfc
    ORDER BY app.id
    FOR NO KEY UPDATE OF app
)

UPDATE app
SET min_avg_pfc = cost.min_avg_pfc
FROM cost
INNER JOIN locked ON cost.id = locked.id
WHERE app.id = cost.id
