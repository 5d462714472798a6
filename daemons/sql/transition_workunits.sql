-- Write the verdicts on locked workunits: new states, next due times, and moves.
-- Verdicts and moves are numbered, because most workunits of a pass get the same verdict.
WITH moved AS (
    UPDATE workunit AS w
    SET
        transition_at = verdict.next_check_at,
        need_validate = (w.need_validate AND NOT verdict.reopened) OR verdict.need_validate,
        error_mask = verdict.error_mask,
        hr_class = CASE WHEN verdict.reset_class THEN 0 ELSE w.hr_class END,
        app_version_id = CASE WHEN verdict.reset_class THEN NULL ELSE w.app_version_id END,
        release_state = verdict.release_state,
        assimilate_state = verdict.assimilate_state,
        file_delete_state = verdict.file_delete_state,
        -- The mark is kept only if the workunit failed because it could not be sent.
        unsendable_at = CASE
            WHEN verdict.error_mask & %(couldnt_send)s::integer <> 0 THEN w.unsendable_at
        END,
        -- The revalidation was carried out, or the request was too late.  If the workunit is
        -- reopened, the new lease token rejects an assimilator that still has the revoked canonical
        -- result.
        revalidate_requested_at = NULL,
        canonical_result_id = CASE WHEN NOT verdict.reopened THEN w.canonical_result_id END,
        canonical_credit = CASE WHEN verdict.reopened THEN 0 ELSE w.canonical_credit END,
        validate_after = CASE WHEN NOT verdict.reopened THEN w.validate_after END,
        assimilate_after = CASE WHEN NOT verdict.reopened THEN w.assimilate_after END,
        lease_until = CASE WHEN NOT verdict.reopened THEN w.lease_until END,
        lease_token = w.lease_token + verdict.reopened::integer
    FROM (
        SELECT
            judged.id,
            (%(look_again_ats)s::timestamptz[])[judged.number] AS look_again_at,
            CASE
                WHEN (%(look_again_ats)s::timestamptz[])[judged.number] > %(now)s::timestamptz
                    THEN (%(look_again_ats)s::timestamptz[])[judged.number]
            END AS next_check_at,
            (%(need_validates)s::boolean[])[judged.number] AS need_validate,
            (%(error_masks)s::integer[])[judged.number] AS error_mask,
            (%(resets)s::boolean[])[judged.number] AS reset_class,
            (%(release_states)s::smallint[])[judged.number] AS release_state,
            (%(assimilate_states)s::smallint[])[judged.number] AS assimilate_state,
            (%(file_delete_states)s::smallint[])[judged.number] AS file_delete_state,
            (%(reopenings)s::boolean[])[judged.number] AS reopened,
            (%(changes)s::boolean[])[judged.number] AS changes_workunit
        FROM unnest(%(ids)s::bigint[], %(numbers)s::integer[]) AS judged (id, number)
    ) AS verdict
    WHERE
        w.id = verdict.id
        -- Often only results change, or nothing.  A check that is due earlier than necessary is not
        -- postponed, because writing a row takes longer than one more look at it.
        AND (
            verdict.changes_workunit
            OR CASE
                WHEN verdict.next_check_at IS NULL THEN w.transition_at IS NOT NULL
                ELSE coalesce(
                    w.transition_at NOT BETWEEN %(now)s::timestamptz AND verdict.next_check_at,
                    TRUE
                )
            END
        )
    RETURNING w.id, verdict.look_again_at, verdict.changes_workunit
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT
        id,
        %(now)s::timestamptz
    FROM moved
    WHERE look_again_at <= %(now)s::timestamptz
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        move.workunit_id,
        (%(axes)s::smallint[])[move.number],
        (%(sources)s::smallint[])[move.number],
        (%(targets)s::smallint[])[move.number],
        (%(becauses)s::smallint[])[move.number],
        %(by)s::smallint
    FROM unnest(%(move_workunit_ids)s::bigint[], %(move_numbers)s::integer[])
        AS move (workunit_id, number)
    WHERE %(ledger)s::boolean
)

SELECT count(*) FROM moved
WHERE changes_workunit
