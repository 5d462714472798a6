-- Binds a workunit to the class of computer or the app version of its first result, where the app
-- asks for homogeneous redundancy; the workunits are locked by the claim.
UPDATE workunit AS w
SET
    hr_class = CASE WHEN a.hr_type > 0 THEN %(hr_class)s::integer ELSE w.hr_class END,
    app_version_id = CASE
        WHEN a.homogeneous_app_version THEN chosen.app_version_id
        ELSE w.app_version_id
    END
FROM unnest(%(workunit_ids)s::bigint[], %(app_version_ids)s::bigint[])
    AS chosen (workunit_id, app_version_id),
    app AS a
WHERE
    w.id = chosen.workunit_id
    AND a.id = w.app_id
    AND (
        (a.hr_type > 0 AND w.hr_class = 0)
        OR (a.homogeneous_app_version AND w.app_version_id IS NULL)
    )
