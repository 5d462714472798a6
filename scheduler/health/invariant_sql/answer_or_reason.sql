-- No workunit has both a canonical result and an error; a workunit for assimilation has one.
SELECT
    name,
    'error_mask ' || error_mask || ', canonical result ' || coalesce(canonical_result_id, 0) AS detail
FROM workunit
WHERE
    (canonical_result_id IS NOT NULL AND error_mask <> 0)
    OR (
        assimilate_state <> {{AssimilateState.INIT}}
        AND canonical_result_id IS NULL
        AND error_mask = 0
    )
