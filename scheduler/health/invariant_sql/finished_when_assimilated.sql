-- Exactly the assimilated workunits have a time when they were finished.
SELECT
    name,
    'assimilate_state ' || assimilate_state || ', finished_at ' || coalesce(finished_at::text, 'never')
        AS detail
FROM workunit
WHERE (assimilate_state = {{AssimilateState.DONE}}) <> (finished_at IS NOT NULL)
