-- Reads when the oldest unassimilated workunit was submitted; older uploads are not needed.
SELECT min(created_at) AS oldest
FROM workunit
WHERE assimilate_state <> {{AssimilateState.DONE}}
