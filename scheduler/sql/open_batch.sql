-- The submitter's batch of this name, made if need be; no row if it is closed or of another app.
INSERT INTO batch (name, submitter_id, app_id, state, created_at, meta)
VALUES (
    %(name)s::text,
    %(submitter_id)s::bigint,
    %(app_id)s::bigint,
    %(in_progress)s::smallint,
    %(now)s::timestamptz,
    '{}'
)
ON CONFLICT (submitter_id, name) DO UPDATE
    SET
        state = excluded.state,
        app_id = excluded.app_id
    WHERE
        batch.state = any(%(open)s::smallint[])
        AND coalesce(batch.app_id, excluded.app_id) = excluded.app_id
RETURNING id
