-- Set the credit scales of app versions, locked in ascending id; unchanged rows are not written.
WITH scale AS (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(scales)s::double precision[]) AS s (id, pfc_scale)
),

locked AS (
    SELECT version.id
    FROM app_version AS version
    INNER JOIN scale ON version.id = scale.id
    WHERE version.pfc_scale <> scale.pfc_scale
    ORDER BY version.id
    FOR NO KEY UPDATE OF version
)

UPDATE app_version AS version
SET pfc_scale = scale.pfc_scale
FROM scale
INNER JOIN locked ON scale.id = locked.id
WHERE version.id = scale.id
