-- Drop the rows of files that were deleted from disk; set the retry time of files that were not.
WITH dropped AS (
    DELETE FROM file
    WHERE id = any(%(gone_ids)s::bigint[]) AND doomed_at IS NOT NULL
    RETURNING id
),

put_off AS (
    UPDATE file
    SET doomed_at = %(again_at)s::timestamptz
    WHERE id = any(%(kept_ids)s::bigint[]) AND doomed_at IS NOT NULL
),

-- These holds have expired: a file with a current hold is not marked for deletion.
unheld AS (
    DELETE FROM file_hold AS hold
    USING dropped
    WHERE hold.file_id = dropped.id
),

-- An entry in `job_file` does not prevent the deletion of a file.
unnamed AS (
    DELETE FROM job_file
    USING dropped
    WHERE job_file.file_id = dropped.id
)

SELECT id FROM dropped
