-- Record the validation of workunits, and make them due.  If a canonical result was chosen, set the
-- result and its credit.
WITH verdict AS (
    SELECT *
    FROM unnest(
        %(ids)s::bigint[],
        %(canonical_ids)s::bigint[],
        %(credits)s::numeric[],
        %(unfinished)s::boolean[]
    ) AS v (id, canonical_id, credit, unfinished)
),

settled AS (
    UPDATE workunit AS w
    SET
        canonical_result_id = coalesce(w.canonical_result_id, verdict.canonical_id),
        canonical_credit = CASE
            WHEN verdict.canonical_id IS NULL THEN w.canonical_credit
            ELSE verdict.credit
        END,
        need_validate = verdict.unfinished,
        validate_after = NULL,
        -- The validator's lease is released; a lease of the assimilator is kept.
        lease_until = CASE WHEN %(is_leased)s::boolean THEN NULL ELSE w.lease_until END
    FROM verdict
    WHERE
        w.id = verdict.id
        AND (
            verdict.canonical_id IS NULL
            OR (w.canonical_result_id IS NULL AND w.error_mask = 0)
        )
    RETURNING w.id, verdict.canonical_id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM settled
),

written AS (
    INSERT INTO ledger_entry (at, workunit_id, axis, source, target, because, by)
    SELECT
        %(now)s::timestamptz,
        id,
        %(axis)s::smallint,
        %(source)s::smallint,
        %(target)s::smallint,
        %(because)s::smallint,
        %(by)s::smallint
    FROM settled
    WHERE canonical_id IS NOT NULL AND %(ledger)s::boolean
)

SELECT id FROM settled
