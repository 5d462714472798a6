-- Forget the failures of subjects whose science went well after all.
DELETE FROM science_failure
WHERE stage = %(stage)s::smallint AND subject_id = any(%(ids)s::bigint[])
