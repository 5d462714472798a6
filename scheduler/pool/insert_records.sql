-- Inserts the records of app versions that a host has claimed for the first time.
INSERT INTO host_app_version (host_id, app_version_id)
SELECT
    %(host_id)s::bigint,
    version_id
FROM unnest(%(app_version_ids)s::bigint[]) AS u (version_id)
ON CONFLICT (host_id, app_version_id) DO NOTHING
