-- Delete stored alerts that have ended, and return them; only one of several callers gets each.
DELETE FROM alert_state
WHERE
    NOT EXISTS (
        SELECT 1
        FROM unnest(%(kinds)s::text[], %(subjects)s::text[]) AS seen (kind, subject)
        WHERE
            seen.kind = alert_state.kind
            AND seen.subject = alert_state.subject
    )
RETURNING
    alert_state.kind,
    alert_state.subject,
    alert_state.sentence,
    alert_state.hint,
    alert_state.began_at,
    alert_state.reported_at
