-- Drops the holds of locked files whose time is over; files first, as those who renew a hold do.
DELETE FROM file_hold
WHERE file_id = any(%(ids)s::bigint[]) AND until <= %(now)s::timestamptz
