-- Writes the states of locked task lists.
UPDATE bundle AS b
SET
    state = settled.state,
    is_ready = settled.is_ready,
    host_id = CASE WHEN settled.state <> {{BundleState.OPEN}} THEN b.host_id END,
    started_at = CASE WHEN settled.state <> {{BundleState.OPEN}} THEN b.started_at END,
    finished_at = CASE
        WHEN settled.state = {{BundleState.CLOSED}} THEN %(now)s::timestamptz
    END
FROM unnest(
    %(ids)s::bigint[],
    %(states)s::smallint[],
    %(readys)s::boolean[]
) AS settled (id, state, is_ready)
WHERE
    b.id = settled.id
    AND b.state <> {{BundleState.CLOSED}}
