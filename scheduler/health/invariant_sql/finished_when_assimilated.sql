-- A workunit has a finish time if and only if it is assimilated.
SELECT
    name,
    'assimilate_state ' || assimilate_state || ', finished_at ' || coalesce(finished_at::text, 'never')
        AS detail
FROM workunit
WHERE (assimilate_state = {{AssimilateState.DONE}}) <> (finished_at IS NOT NULL)
