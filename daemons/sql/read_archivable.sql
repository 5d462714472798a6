-- Everything known of claimed workunits: their rows, results, outputs, credit and timeline; columns
-- that are NULL are left out.
SELECT
    w.id,
    app.name AS app,
    jsonb_strip_nulls(to_jsonb(w)) AS workunit,
    (
        SELECT jsonb_agg(jsonb_strip_nulls(to_jsonb(r)) ORDER BY r.id)
        FROM result AS r
        WHERE r.workunit_id = w.id
    ) AS results,
    (
        SELECT jsonb_agg(to_jsonb(f) - 'id' ORDER BY f.result_id, f.position)
        FROM result AS r
        INNER JOIN result_file AS f ON r.id = f.result_id
        WHERE r.workunit_id = w.id
    ) AS outputs,
    (
        SELECT jsonb_agg(to_jsonb(c) - 'id' ORDER BY c.result_id)
        FROM result AS r
        INNER JOIN credit_entry AS c ON r.id = c.result_id
        WHERE r.workunit_id = w.id
    ) AS credit,
    (
        SELECT
            jsonb_agg(
                jsonb_build_array(e.at, e.result_id, e.axis, e.source, e.target, e.because, e.by)
                ORDER BY e.at, e.id
            )
        FROM ledger_entry AS e
        WHERE
            e.workunit_id = w.id
            -- Days in which nothing can have happened to them are not looked at.
            AND e.at >= %(oldest)s::timestamptz
            AND e.at <= %(now)s::timestamptz
    ) AS timeline
FROM workunit AS w
INNER JOIN app ON w.app_id = app.id
WHERE w.id = any(%(ids)s::bigint[])
ORDER BY w.id
