-- Read apps with a generator and fewer unsent results than the cushion.  `coming` is the number of
-- workunits of the generator's last call that have no results yet.
SELECT
    a.id,
    a.name,
    a.generator,
    a.generator_options,
    a.generator_state,
    a.science_time_limit,
    a.cushion,
    md5(a.generator || ' ' || a.generator_options::text) AS fingerprint,
    unsent.number AS unsent,
    coming.number AS coming,
    EXISTS (
        SELECT FROM science_failure AS f WHERE f.stage = 4 AND f.subject_id = a.id
    ) AS has_failed
FROM app AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS number
    FROM (
        SELECT r.id
        FROM result AS r
        WHERE r.app_id = a.id AND r.server_state = {{ServerState.UNSENT}}
        LIMIT a.cushion
    ) AS waiting
) AS unsent
CROSS JOIN LATERAL (
    SELECT count(*) AS number
    FROM workunit AS w
    WHERE
        w.id BETWEEN (a.generator_state ->> 'first_id')::bigint
        AND (a.generator_state ->> 'last_id')::bigint
        AND w.app_id = a.id
        AND EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)
        AND NOT EXISTS (SELECT FROM result AS r WHERE r.workunit_id = w.id)
) AS coming
WHERE
    a.generator <> ''
    AND NOT a.deprecated
    AND a.id %% %(shard_count)s::bigint = %(shard_index)s::bigint
    AND unsent.number < a.cushion
    AND coalesce((a.generator_state ->> 'ask_again_at')::timestamptz, '-infinity')
    <= %(now)s::timestamptz
    AND a.generator_state ->> 'exhausted'
    IS DISTINCT FROM md5(a.generator || ' ' || a.generator_options::text)
    AND NOT EXISTS (
        SELECT FROM science_failure AS f
        WHERE f.stage = 4 AND f.subject_id = a.id AND f.parked_at IS NOT NULL
    )
ORDER BY a.id
