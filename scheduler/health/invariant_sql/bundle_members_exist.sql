-- Each member of a task list exists, and each workunit is a member of its current list.
SELECT
    'task list ' || member.bundle_id AS name,
    'has the member ' || member.workunit_id || ', which does not exist' AS detail
FROM bundle_member AS member
WHERE NOT EXISTS (SELECT FROM workunit AS w WHERE w.id = member.workunit_id)
UNION ALL
SELECT
    w.name,
    'belongs to task list ' || w.bundle_id || ', which does not have it as a member' AS detail
FROM workunit AS w
WHERE
    w.bundle_id > 0
    AND NOT EXISTS (
        SELECT FROM bundle_member AS member
        WHERE member.bundle_id = w.bundle_id AND member.workunit_id = w.id
    )
