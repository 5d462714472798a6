-- Deletes expired holds of locked files; the files are locked first, as when a hold is renewed.
DELETE FROM file_hold
WHERE file_id = any(%(ids)s::bigint[]) AND until <= %(now)s::timestamptz
