-- Puts locked workunits, and their results that are not sent yet, into task lists.
WITH member AS (
    SELECT *
    FROM unnest(%(bundle_ids)s::bigint[], %(workunit_ids)s::bigint[])
        AS pair (bundle_id, workunit_id)
),

listed AS (
    UPDATE workunit AS w
    SET bundle_id = member.bundle_id
    FROM member
    WHERE w.id = member.workunit_id
)

UPDATE result AS r
SET
    target_kind = {{Target.BUNDLE}},
    target_id = member.bundle_id
FROM member
WHERE
    r.workunit_id = member.workunit_id
    AND r.server_state <= {{ServerState.UNSENT}}
