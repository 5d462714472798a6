-- Set the boundaries between the size classes of an app's work.
UPDATE app
SET size_bounds = to_jsonb(%(bounds)s::double precision[])
WHERE id = %(app_id)s::bigint
