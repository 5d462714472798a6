-- Reads the last heartbeat of the web processes, the end of the last outage, and whether an outage
-- is not applied yet; whether workunits may wait for task lists.
SELECT
    (SELECT seen_at FROM heartbeat WHERE name = 'web') AS web_seen_at,
    (SELECT max(ended_at) FROM outage) AS last_outage_ended_at,
    EXISTS (SELECT FROM outage WHERE applied_at IS NULL) AS is_pending,
    EXISTS (SELECT FROM app WHERE has_bundles) AS has_bundles
