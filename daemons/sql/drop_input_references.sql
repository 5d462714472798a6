-- Drop locked workunits' references to their input files.
DELETE FROM workunit_file
WHERE workunit_id = any(%(workunit_ids)s::bigint[])
