-- Reopens a batch by its id.  Returns no row if the batch is closed, or belongs to another
-- submitter or app.
UPDATE batch
SET
    state = %(in_progress)s::smallint,
    app_id = %(app_id)s::bigint,
    completed_at = NULL,
    let_go_at = NULL,
    tail_at = NULL
WHERE
    id = %(id)s::bigint
    AND submitter_id = %(submitter_id)s::bigint
    AND state = any(%(open)s::smallint[])
    AND coalesce(app_id, %(app_id)s::bigint) = %(app_id)s::bigint
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
