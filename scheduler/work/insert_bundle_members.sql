-- Adds workunits to task lists; members that a list has already are left.
INSERT INTO bundle_member (bundle_id, workunit_id)
SELECT
    pair.bundle_id,
    pair.workunit_id
FROM unnest(%(bundle_ids)s::bigint[], %(workunit_ids)s::bigint[]) AS pair (bundle_id, workunit_id)
ORDER BY pair.bundle_id, pair.workunit_id
ON CONFLICT (bundle_id, workunit_id) DO NOTHING
