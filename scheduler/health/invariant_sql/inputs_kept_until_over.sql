-- Inputs are released only when the workunit is assimilated and all its results are over.
SELECT
    w.name,
    'file_delete_state ' || w.file_delete_state || ' while ' || r.name || ' is not over' AS detail
FROM workunit AS w
INNER JOIN result AS r ON w.id = r.workunit_id AND r.server_state <> {{ServerState.OVER}}
WHERE w.file_delete_state <> {{FileDeleteState.INIT}}
