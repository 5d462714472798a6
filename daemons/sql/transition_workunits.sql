-- Write what was decided of locked workunits, their next look included, and their own moves.
WITH verdict AS (
    SELECT *
    FROM unnest(
        %(ids)s::bigint[],
        %(look_again_ats)s::timestamptz[],
        %(need_validates)s::boolean[],
        %(error_masks)s::integer[],
        %(resets)s::boolean[],
        %(release_states)s::smallint[],
        %(assimilate_states)s::smallint[],
        %(file_delete_states)s::smallint[],
        %(reopenings)s::boolean[]
    ) AS v (
        id, look_again_at, need_validate, error_mask, reset_class, release_state,
        assimilate_state, file_delete_state, reopened
    )
),

moved AS (
    UPDATE workunit AS w
    SET
        transition_at = verdict.look_again_at,
        need_validate = (w.need_validate AND NOT verdict.reopened) OR verdict.need_validate,
        error_mask = verdict.error_mask,
        hr_class = CASE WHEN verdict.reset_class THEN 0 ELSE w.hr_class END,
        app_version_id = CASE WHEN verdict.reset_class THEN NULL ELSE w.app_version_id END,
        release_state = verdict.release_state,
        assimilate_state = verdict.assimilate_state,
        file_delete_state = verdict.file_delete_state,
        -- The request is met, or somebody was given the result after all.
        unsendable_at = CASE
            WHEN verdict.error_mask & %(couldnt_send)s::integer <> 0 THEN w.unsendable_at
        END,
        -- Met, or beyond that.  Whoever holds the answer that is taken back is fenced off.
        revalidate_requested_at = NULL,
        canonical_result_id = CASE WHEN NOT verdict.reopened THEN w.canonical_result_id END,
        canonical_credit = CASE WHEN verdict.reopened THEN 0 ELSE w.canonical_credit END,
        validate_after = CASE WHEN NOT verdict.reopened THEN w.validate_after END,
        assimilate_after = CASE WHEN NOT verdict.reopened THEN w.assimilate_after END,
        lease_until = CASE WHEN NOT verdict.reopened THEN w.lease_until END,
        lease_token = w.lease_token + verdict.reopened::integer
    FROM verdict
    WHERE w.id = verdict.id
    RETURNING w.id
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        move.workunit_id,
        move.axis,
        move.source,
        move.target,
        move.because,
        %(by)s::smallint
    FROM unnest(
        %(move_workunit_ids)s::bigint[],
        %(move_axes)s::smallint[],
        %(move_sources)s::smallint[],
        %(move_targets)s::smallint[],
        %(move_becauses)s::smallint[]
    ) AS move (workunit_id, axis, source, target, because)
    WHERE %(ledger)s::boolean
)

SELECT id FROM moved
