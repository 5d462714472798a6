-- Every assimilated workunit says when it was finished, and no other does.
SELECT
    name,
    'assimilate_state ' || assimilate_state || ', finished_at ' || coalesce(finished_at::text, 'never')
        AS detail
FROM workunit
WHERE (assimilate_state = 2) <> (finished_at IS NOT NULL)
