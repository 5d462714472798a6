-- Drop locked workunits from the task lists that they are, or were, members of.
DELETE FROM bundle_member
WHERE workunit_id = any(%(ids)s::bigint[])
