-- Outputs are released only when the workunit is assimilated.
SELECT
    r.name,
    'file_delete_state ' || r.file_delete_state || ', assimilate_state ' || w.assimilate_state
        AS detail
FROM result AS r
INNER JOIN workunit AS w ON r.workunit_id = w.id
WHERE
    r.file_delete_state <> {{FileDeleteState.INIT}}
    AND w.assimilate_state <> {{AssimilateState.DONE}}
