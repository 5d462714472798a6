-- Adds the passes of one process to the counts of its daemon.
INSERT INTO heartbeat AS kept (name, seen_at, passes, failed_passes, examined_rows, busy_seconds)
VALUES (
    %(name)s::text,
    %(now)s::timestamptz,
    %(passes)s::bigint,
    %(failed_passes)s::bigint,
    %(examined_rows)s::bigint,
    %(busy_seconds)s::double precision
)
ON CONFLICT (name) DO UPDATE
SET
    seen_at = greatest(kept.seen_at, excluded.seen_at),
    passes = kept.passes + excluded.passes,
    failed_passes = kept.failed_passes + excluded.failed_passes,
    examined_rows = kept.examined_rows + excluded.examined_rows,
    busy_seconds = kept.busy_seconds + excluded.busy_seconds
