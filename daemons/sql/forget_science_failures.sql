-- Delete the failures of subjects whose science code has succeeded since.
DELETE FROM science_failure
WHERE stage = %(stage)s::smallint AND subject_id = any(%(ids)s::bigint[])
