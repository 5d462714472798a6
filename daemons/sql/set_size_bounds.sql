-- Set the speeds that divide an app's size classes.
UPDATE app
SET size_bounds = to_jsonb(%(bounds)s::double precision[])
WHERE id = %(app_id)s::bigint
