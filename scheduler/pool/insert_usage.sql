-- Stores a usage sample of a result in progress on a host, and its fraction done.  A sample is stored
-- if it has a value of which the result got no sample in the last second: Eve's clients report each
-- value by a call of its own.  So at most six samples of a result are stored in a second.
-- A locked result keeps its fraction done, because the host reports again.
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

recent AS (
    SELECT
        (count(s.fraction_done) = 0 AND %(fraction_done)s::double precision IS NOT NULL)
        OR (count(s.cpu_time) = 0 AND %(cpu_time)s::double precision IS NOT NULL)
        OR (count(s.elapsed_time) = 0 AND %(elapsed_time)s::double precision IS NOT NULL)
        OR (count(s.memory_bytes) = 0 AND %(memory_bytes)s::double precision IS NOT NULL)
        OR (count(s.gpu_usage) = 0 AND %(gpu_usage)s::double precision IS NOT NULL)
        OR (count(s.cpu_utilization) = 0 AND %(cpu_utilization)s::double precision IS NOT NULL)
            AS lacks_a_value
    FROM usage_sample AS s
    WHERE
        s.result_id = any(array(SELECT own.id FROM own))
        AND s.at > %(now)s::timestamptz - interval '1 second'
),

sampled AS (
    INSERT INTO usage_sample
    (
        result_id, at, fraction_done, cpu_time, elapsed_time, memory_bytes, gpu_usage,
        cpu_utilization
    )
    SELECT
        own.id,
        %(now)s::timestamptz,
        %(fraction_done)s::double precision,
        %(cpu_time)s::double precision,
        %(elapsed_time)s::double precision,
        %(memory_bytes)s::double precision,
        %(gpu_usage)s::double precision,
        %(cpu_utilization)s::double precision
    FROM own
    CROSS JOIN recent
    WHERE recent.lacks_a_value
    RETURNING id
)

SELECT EXISTS (SELECT FROM sampled) AS stored FROM own
