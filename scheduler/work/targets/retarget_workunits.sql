-- Sets the target of locked workunits of which no result was sent, and of their results.  Refusals
-- by other hosts are dropped, because they would count against the new target.  With `is_applied`
-- false, the rows are only a preview, and the workunits need no locks.
WITH named AS MATERIALIZED (
    SELECT
        w.id,
        w.name,
        app.name AS app,
        app.target_nresults > 1 AS is_adaptive,
        CASE
            WHEN
                w.canonical_result_id IS NOT NULL
                OR w.error_mask <> 0
                OR w.cancel_requested_at IS NOT NULL
                THEN 'finished'
            WHEN w.broadcast OR w.is_group OR w.queue_id IS NOT NULL OR w.bundle_id IS NOT NULL
                THEN 'bound'
            WHEN
                coalesce(w.target_host_id, 0) = coalesce(%(host_id)s::bigint, 0)
                AND coalesce(w.target_account_id, 0) = coalesce(%(account_id)s::bigint, 0)
                AND coalesce(w.target_team_id, 0) = coalesce(%(team_id)s::bigint, 0)
                THEN 'already'
            WHEN
                -- A scalar query, which PostgreSQL looks up for each workunit.
                (
                    SELECT TRUE
                    FROM result AS r
                    WHERE r.workunit_id = w.id AND r.sent_at IS NOT NULL
                    LIMIT 1
                )
                THEN 'sent'
            WHEN
                w.target_nresults > 1
                AND (
                    %(host_id)s::bigint IS NOT NULL
                    OR (%(account_id)s::bigint IS NOT NULL AND app.one_result_per = 'account')
                )
                THEN 'replicated'
            ELSE 'changed'
        END AS effect
    FROM workunit AS w
    INNER JOIN app ON w.app_id = app.id
    WHERE w.id = any(%(ids)s::bigint[])
),

changed AS (
    UPDATE workunit
    SET
        target_host_id = %(host_id)s::bigint,
        target_account_id = %(account_id)s::bigint,
        target_team_id = %(team_id)s::bigint,
        hard_to_send_at = NULL,
        unsendable_at = NULL
    FROM named
    WHERE
        workunit.id = named.id
        AND named.effect = 'changed'
        AND %(is_applied)s::boolean
    RETURNING workunit.id
),

retargeted AS (
    UPDATE result
    SET
        target_kind = %(target_kind)s::smallint,
        target_id = %(target_id)s::bigint
    WHERE
        result.workunit_id = any(array(SELECT changed.id FROM changed))
        AND result.server_state IN ({{ServerState.INACTIVE}}, {{ServerState.UNSENT}})
),

forgotten AS (
    DELETE FROM refusal
    WHERE
        refusal.id IN (
            -- Locked in the order in which refusals are inserted.
            SELECT r.id
            FROM refusal AS r
            WHERE r.workunit_id = any(array(SELECT changed.id FROM changed))
            ORDER BY r.workunit_id, r.host_id
            FOR UPDATE
        )
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT
        changed.id,
        %(now)s::timestamptz
    FROM changed
)

SELECT
    id,
    name,
    app,
    is_adaptive,
    effect
FROM named
ORDER BY id
