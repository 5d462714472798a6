-- Removes the class of computers and the app version to which locked workunits are bound, except for
-- workunits with results that are in progress, will be compared, or may be reported late.
WITH named AS (
    SELECT
        id,
        name,
        CASE
            WHEN canonical_result_id IS NOT NULL OR error_mask <> 0 THEN 'finished'
            WHEN hr_class = 0 AND app_version_id IS NULL THEN 'already'
            WHEN
                -- A scalar query, which PostgreSQL looks up for each workunit.  A result that timed
                -- out may still be reported.
                (
                    SELECT TRUE
                    FROM result AS r
                    WHERE
                        r.workunit_id = workunit.id
                        AND (
                            r.server_state = {{ServerState.IN_PROGRESS}}
                            OR r.outcome = {{Outcome.NO_REPLY}}
                            OR (
                                r.outcome = {{Outcome.SUCCESS}}
                                AND r.validate_state <> {{ValidateState.INVALID}}
                            )
                        )
                    LIMIT 1
                )
                THEN 'impossible'
            ELSE 'changed'
        END AS said
    FROM workunit
    WHERE id = any(%(ids)s::bigint[])
),

reset AS (
    UPDATE workunit
    SET
        hr_class = 0,
        app_version_id = NULL
    FROM named
    WHERE workunit.id = named.id AND named.said = 'changed'
    RETURNING workunit.id
),

woken AS (
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s::timestamptz FROM reset
)

SELECT id, name, said FROM named
