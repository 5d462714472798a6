-- What hangs on the results of claimed workunits: outputs, credit, usage, messages; by result.
SELECT
    'outputs' AS kind,
    f.result_id,
    jsonb_agg(to_jsonb(f) - 'id' - 'result_id' ORDER BY f.position) AS facts
FROM result_file AS f
WHERE f.result_id = any(%(result_ids)s::bigint[])
GROUP BY f.result_id
UNION ALL
SELECT
    'credit',
    c.result_id,
    jsonb_agg(to_jsonb(c) - 'id' ORDER BY c.granted_at, c.id)
FROM credit_entry AS c
WHERE c.result_id = any(%(result_ids)s::bigint[])
GROUP BY c.result_id
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
