-- Everything known of claimed workunits but what hangs on their results; columns that are NULL are
-- left out.  Each table is asked by one array, without a join: a plan made while the tables were
-- small stays good when they have grown.
SELECT
    'workunit' AS kind,
    w.id AS workunit_id,
    jsonb_strip_nulls(to_jsonb(w))
    || jsonb_build_object('app', (SELECT app.name FROM app WHERE app.id = w.app_id))
    || CASE
        WHEN w.batch_id IS NULL THEN '{}'::jsonb
        ELSE jsonb_build_object('batch', (SELECT b.name FROM batch AS b WHERE b.id = w.batch_id))
    END AS facts
FROM workunit AS w
WHERE w.id = any(%(ids)s::bigint[])
UNION ALL
SELECT
    'results',
    r.workunit_id,
    jsonb_agg(jsonb_strip_nulls(to_jsonb(r)) ORDER BY r.id)
FROM result AS r
WHERE r.workunit_id = any(%(ids)s::bigint[])
GROUP BY r.workunit_id
UNION ALL
SELECT
    'timeline',
    e.workunit_id,
    jsonb_agg(
        jsonb_build_array(e.at, e.result_id, e.axis, e.source, e.target, e.because, e.by)
        ORDER BY e.at, e.id
    )
FROM ledger_entry AS e
WHERE
    e.workunit_id = any(%(ids)s::bigint[])
    -- Days in which nothing can have happened to them are not looked at.
    AND e.at >= %(oldest)s::timestamptz
    AND e.at <= %(now)s::timestamptz
GROUP BY e.workunit_id
UNION ALL
SELECT
    'refusals',
    f.workunit_id,
    jsonb_agg(to_jsonb(f) - 'id' - 'workunit_id' ORDER BY f.at, f.id)
FROM refusal AS f
WHERE f.workunit_id = any(%(ids)s::bigint[])
GROUP BY f.workunit_id
UNION ALL
SELECT
    'failures',
    f.subject_id,
    jsonb_agg(to_jsonb(f) - 'id' - 'subject_id' ORDER BY f.stage)
FROM science_failure AS f
WHERE
    f.stage = any(ARRAY[1, 2])
    AND f.subject_id = any(%(ids)s::bigint[])
GROUP BY f.subject_id
