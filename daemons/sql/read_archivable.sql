-- Read data that few claimed workunits and results have: refusals, failures, dependencies, usage
-- samples and messages.  Each table is read by one array, without a join, so that a plan made while
-- the tables were small stays efficient when they have grown.
SELECT
    'refusals' AS kind,
    f.workunit_id AS id,
    jsonb_agg(to_jsonb(f) - 'id' - 'workunit_id' ORDER BY f.at, f.id) AS facts
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
UNION ALL
SELECT
    'after',
    d.child_id,
    jsonb_agg(d.parent_id ORDER BY d.parent_id)
FROM dependency AS d
WHERE d.child_id = any(%(ids)s::bigint[])
GROUP BY d.child_id
UNION ALL
SELECT
    'continuations',
    d.parent_id,
    jsonb_agg(d.child_id ORDER BY d.child_id)
FROM dependency AS d
WHERE d.parent_id = any(%(ids)s::bigint[])
GROUP BY d.parent_id
UNION ALL
SELECT
    'usage',
    s.result_id,
    jsonb_agg(jsonb_strip_nulls(to_jsonb(s)) - 'id' - 'result_id' ORDER BY s.at)
FROM usage_sample AS s
WHERE s.result_id = any(%(result_ids)s::bigint[])
GROUP BY s.result_id
UNION ALL
SELECT
    'trickles_up',
    t.result_id,
    jsonb_agg(jsonb_strip_nulls(to_jsonb(t)) - 'result_id' - 'app_id' ORDER BY t.said_at, t.id)
FROM trickle_up AS t
WHERE t.result_id = any(%(result_ids)s::bigint[])
GROUP BY t.result_id
UNION ALL
SELECT
    'trickles_down',
    t.result_id,
    jsonb_agg(jsonb_strip_nulls(to_jsonb(t)) - 'id' - 'result_id' - 'result_name' ORDER BY t.id)
FROM trickle_down AS t
WHERE t.result_id = any(%(result_ids)s::bigint[])
GROUP BY t.result_id
