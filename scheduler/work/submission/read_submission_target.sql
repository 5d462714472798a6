-- Reads the app that work is submitted to, its versions, and the median speed of the newest hosts.
-- A single very fast or slow host hardly changes a median.
SELECT
    app.id,
    app.kind,
    app.deprecated,
    app.validator,
    app.one_result_per,
    app.target_nresults,
    app.n_size_classes,
    app.workunit_defaults,
    speed.fpops,
    speed.hosts::integer AS hosts,
    array(
        SELECT DISTINCT version.version_num
        FROM app_version AS version
        WHERE version.app_id = app.id AND NOT version.deprecated
    ) AS versions
FROM app
CROSS JOIN (
    SELECT
        percentile_cont(0.5) WITHIN GROUP (ORDER BY newest.p_fpops) AS fpops,
        count(*) AS hosts
    FROM (
        SELECT p_fpops
        FROM host
        WHERE merged_into_id IS NULL AND NOT denied AND p_fpops > 0
        ORDER BY id DESC
        LIMIT %(hosts)s::integer
    ) AS newest
) AS speed
WHERE app.name = %(app)s::text
