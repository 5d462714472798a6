-- Gives imported task lists the earliest creation time of their members.
UPDATE bundle AS b
SET created_at = earliest.created_at
FROM (
    SELECT
        member.bundle_id,
        min(w.created_at) AS created_at
    FROM bundle_member AS member
    INNER JOIN workunit AS w ON member.workunit_id = w.id
    WHERE w.id = ANY(%(ids)s::bigint[])
    GROUP BY member.bundle_id
) AS earliest
WHERE b.id = earliest.bundle_id
