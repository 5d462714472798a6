-- When the oldest workunit that is not assimilated was submitted: older uploads nobody waits for.
SELECT min(created_at) AS oldest
FROM workunit
WHERE assimilate_state <> 2
