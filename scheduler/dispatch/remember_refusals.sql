-- Stores which hosts were refused results of which workunits, with the latest lasting reason.  A
-- row is rewritten only if the reason changed, or after an interval.
INSERT INTO refusal AS kept (
    workunit_id, host_id, app_id, reason, sentence, counts_at_once, first_at, at
)
SELECT
    r.workunit_id,
    r.host_id,
    r.app_id,
    r.reason,
    r.sentence,
    r.counts_at_once,
    %(now)s::timestamptz,
    %(now)s::timestamptz
FROM unnest(
    %(workunit_ids)s::bigint[],
    %(host_ids)s::bigint[],
    %(app_ids)s::bigint[],
    %(reasons)s::text[],
    %(sentences)s::text[],
    %(at_once)s::boolean[]
) AS r (workunit_id, host_id, app_id, reason, sentence, counts_at_once)
ORDER BY r.workunit_id, r.host_id
ON CONFLICT (workunit_id, host_id) DO UPDATE
SET
    reason = excluded.reason,
    sentence = excluded.sentence,
    counts_at_once = excluded.counts_at_once,
    at = excluded.at
WHERE
    kept.reason <> excluded.reason
    OR kept.counts_at_once <> excluded.counts_at_once
    OR kept.at < %(again_before)s::timestamptz
