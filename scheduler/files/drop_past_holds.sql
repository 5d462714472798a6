-- Deletes expired holds.  The caller has locked the files, as a renewal does before it updates
-- holds.
DELETE FROM file_hold
WHERE file_id = any(%(ids)s::bigint[]) AND until <= %(now)s::timestamptz
