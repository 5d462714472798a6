-- Stores the properties that the first sent result fixes for a workunit: the host class
-- (homogeneous redundancy), the app version (homogeneous app version) and, if the host is not
-- trusted, the number of replicas (adaptive replication), which the transitioner then creates.  The
-- claim has locked the workunits.
WITH chosen AS (
    SELECT *
    FROM unnest(
        %(workunit_ids)s::bigint[],
        %(app_version_ids)s::bigint[],
        %(hr_classes)s::integer[],
        %(replicate)s::boolean[]
    ) AS u (workunit_id, app_version_id, hr_class, replicate)
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT workunit_id, %(now)s::timestamptz FROM chosen WHERE replicate
)

UPDATE workunit AS w
SET
    hr_class = CASE WHEN a.hr_type > 0 AND w.hr_class = 0 THEN chosen.hr_class ELSE w.hr_class END,
    app_version_id = CASE
        WHEN a.homogeneous_app_version AND w.app_version_id IS NULL THEN chosen.app_version_id
        ELSE w.app_version_id
    END,
    target_nresults = CASE
        WHEN chosen.replicate THEN greatest(w.target_nresults, a.target_nresults)
        ELSE w.target_nresults
    END,
    min_quorum = CASE
        WHEN chosen.replicate THEN greatest(w.min_quorum, a.target_nresults)
        ELSE w.min_quorum
    END,
    max_total_results = CASE
        WHEN chosen.replicate THEN greatest(w.max_total_results, a.target_nresults)
        ELSE w.max_total_results
    END,
    max_success_results = CASE
        WHEN chosen.replicate THEN greatest(w.max_success_results, a.target_nresults)
        ELSE w.max_success_results
    END
FROM chosen, app AS a
WHERE
    w.id = chosen.workunit_id
    AND a.id = w.app_id
    AND (
        chosen.replicate
        OR (a.hr_type > 0 AND w.hr_class = 0)
        OR (a.homogeneous_app_version AND w.app_version_id IS NULL)
    )
