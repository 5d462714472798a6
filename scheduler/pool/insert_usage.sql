-- Stores a usage sample of a result in progress on a host, at most one a second for each result, and
-- its fraction done.  A locked result keeps its fraction done, because the host reports again.
WITH own AS (
    SELECT
        r.id,
        r.sent_at
    FROM result AS r
    WHERE
        r.id = %(result_id)s::bigint
        AND r.host_id = %(host_id)s::bigint
        -- The state IN_PROGRESS.  No partial index matches this expression, so that the row is found
        -- by its id.
        AND r.server_state * 10 + r.outcome = {{ResultState.IN_PROGRESS}}
),

free AS (
    SELECT r.id FROM result AS r
    WHERE
        r.id = any(array(SELECT own.id FROM own))
        AND r.server_state * 10 + r.outcome = {{ResultState.IN_PROGRESS}}
        AND %(fraction_done)s::double precision IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
),

noted AS (
    UPDATE result AS r
    SET fraction_done = %(fraction_done)s::double precision
    FROM free
    WHERE r.id = free.id AND r.server_state * 10 + r.outcome = {{ResultState.IN_PROGRESS}}
),

sampled AS (
    INSERT INTO usage_sample
    (result_id, at, fraction_done, cpu_time, elapsed_time, memory_bytes, gpu_usage)
    SELECT
        own.id,
        %(now)s::timestamptz,
        %(fraction_done)s::double precision,
        %(cpu_time)s::double precision,
        %(elapsed_time)s::double precision,
        %(memory_bytes)s::double precision,
        %(gpu_usage)s::double precision
    FROM own
    WHERE NOT EXISTS (
        SELECT FROM usage_sample AS s
        WHERE s.result_id = own.id AND s.at > %(now)s::timestamptz - interval '1 second'
    )
    RETURNING id
)

SELECT EXISTS (SELECT FROM sampled) AS stored FROM own
