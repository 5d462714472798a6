-- All results in progress of a task list are on the host that claimed it.
SELECT
    result.name,
    'is in progress on host ' || result.host_id || ', but its task list ' || bundle.id
    || ' is ' || coalesce('on host ' || bundle.host_id, 'on no host') AS detail
FROM bundle
INNER JOIN bundle_member AS member ON bundle.id = member.bundle_id
INNER JOIN result
    ON
        member.workunit_id = result.workunit_id
        AND result.server_state = {{ServerState.IN_PROGRESS}}
        AND result.target_kind = {{Target.BUNDLE}}
        AND result.target_id = bundle.id
WHERE
    bundle.state <> {{BundleState.RUNNING}}
    OR result.host_id IS DISTINCT FROM bundle.host_id
