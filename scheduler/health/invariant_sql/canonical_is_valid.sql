-- Every canonical result exists, belongs to its workunit, and is a valid success; groups have none.
SELECT
    w.name,
    coalesce(
        'canonical result ' || r.name || ' is not a valid success of the workunit',
        'canonical result does not exist'
    ) AS detail
FROM workunit AS w
LEFT JOIN result AS r ON w.canonical_result_id = r.id
WHERE
    w.canonical_result_id IS NOT NULL
    AND NOT (w.is_group AND w.canonical_result_id = {{NO_RESULT}})
    AND (
        r.id IS NULL
        OR r.workunit_id <> w.id
        OR r.server_state <> {{ServerState.OVER}}
        OR r.outcome <> {{Outcome.SUCCESS}}
        OR r.validate_state <> {{ValidateState.VALID}}
    )
