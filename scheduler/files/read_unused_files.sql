-- Reads the files without references among the next files by id; `mark_unused_files` checks again
-- under locks.
WITH slice AS (
    SELECT
        id,
        doomed_at
    FROM file
    WHERE id > %(after)s::bigint
    ORDER BY id
    LIMIT %(limit)s::bigint
)

SELECT
    max(slice.id) AS last,
    coalesce(
        array_agg(slice.id) FILTER (
            WHERE slice.doomed_at IS NULL
            AND NOT EXISTS (SELECT FROM workunit_file AS input WHERE input.file_id = slice.id)
            AND NOT EXISTS (SELECT FROM app_version_file AS part WHERE part.file_id = slice.id)
            AND NOT EXISTS (SELECT FROM file_request AS request WHERE request.file_id = slice.id)
            AND NOT EXISTS (
                SELECT FROM file_hold AS hold
                WHERE hold.file_id = slice.id AND hold.until > %(now)s::timestamptz
            )
        ),
        '{}'
    ) AS ids
FROM slice
