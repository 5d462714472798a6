-- Read the average claims of app versions, over all hosts and on the host of each pair.
SELECT
    pair.host_id,
    pair.app_version_id,
    version.pfc_n AS version_samples,
    version.pfc_avg AS version_average,
    version.pfc_scale AS version_scale,
    coalesce(record.pfc_n, 0) AS host_samples,
    coalesce(record.pfc_avg, 0) AS host_average,
    coalesce(record.consecutive_valid, 0) AS consecutive_valid
FROM unnest(%(host_ids)s::bigint[], %(app_version_ids)s::bigint[]) AS pair (host_id, app_version_id)
INNER JOIN app_version AS version ON pair.app_version_id = version.id
-- A volunteer's own program can claim any amount, so the estimate is used instead of its claim.
INNER JOIN platform ON version.platform_id = platform.id AND platform.name <> 'anonymous'
LEFT JOIN host_app_version AS record
    ON pair.host_id = record.host_id AND pair.app_version_id = record.app_version_id
