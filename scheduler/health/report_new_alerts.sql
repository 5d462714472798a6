-- Mark stored alerts as reported that have lasted long enough; only one of several callers gets
-- each alert.
UPDATE alert_state
SET reported_at = %(now)s::timestamptz
WHERE
    alert_state.reported_at IS NULL
    AND alert_state.began_at <= %(before)s::timestamptz
RETURNING
    alert_state.kind,
    alert_state.subject,
    alert_state.sentence,
    alert_state.hint,
    alert_state.began_at
