-- Reopens or creates the batch; returns no row if it is closed or belongs to another app.
INSERT INTO batch (
    name, submitter_id, app_id, state, created_at, expire_at, accelerate_tail, priority,
    keep_outputs, after_id, after_any, meta, bundle_size, bundle_duration
)
VALUES (
    %(name)s::text,
    %(submitter_id)s::bigint,
    %(app_id)s::bigint,
    %(in_progress)s::smallint,
    %(now)s::timestamptz,
    %(expire_at)s::timestamptz,
    %(accelerate_tail)s::boolean,
    %(priority)s::integer,
    %(keep_outputs)s::boolean,
    %(after_id)s::bigint,
    %(after_any)s::boolean,
    %(meta)s::jsonb,
    %(bundle_size)s::integer,
    %(bundle_duration)s::interval
)
ON CONFLICT (submitter_id, name) DO UPDATE
    SET
        state = excluded.state,
        app_id = excluded.app_id,
        completed_at = NULL,
        let_go_at = NULL,
        tail_at = NULL
    WHERE
        batch.state = any(%(open)s::smallint[])
        AND coalesce(batch.app_id, excluded.app_id) = excluded.app_id
RETURNING
    id,
    name,
    accelerate_tail,
    priority,
    keep_outputs,
    after_id,
    after_any,
    meta,
    bundle_size,
    bundle_duration,
    workunits_submitted AS workunits_before
