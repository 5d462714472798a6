-- Drops expired holds of locked files; the files are locked first, in the order of a renewal.
DELETE FROM file_hold
WHERE file_id = any(%(ids)s::bigint[]) AND until <= %(now)s::timestamptz
