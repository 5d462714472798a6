-- Stores the trickles of a host's results; a repeated trickle is stored once.  Trickles for other
-- results are counted, but not stored.
WITH received AS (
    SELECT *
    FROM unnest(
        %(result_names)s::text[],
        %(varieties)s::text[],
        %(said_ats)s::timestamptz[],
        %(texts)s::text[]
    ) AS u (result_name, variety, said_at, text)
),

own_result AS (
    SELECT
        r.id,
        r.app_id,
        r.name
    FROM result AS r
    WHERE
        r.name = any(%(result_names)s::text[])
        AND r.host_id = %(host_id)s::bigint
),

inserted AS (
    INSERT INTO trickle_up (result_id, host_id, app_id, variety, text, said_at, received_at)
    SELECT
        own_result.id,
        %(host_id)s::bigint,
        own_result.app_id,
        received.variety,
        received.text,
        received.said_at,
        %(now)s::timestamptz
    FROM received
    INNER JOIN own_result ON received.result_name = own_result.name
    ON CONFLICT (result_id, variety, said_at) DO NOTHING
    RETURNING id
)

SELECT
    (SELECT count(*) FROM inserted) AS kept,
    (
        SELECT count(*)
        FROM received
        WHERE received.result_name <> ALL(ARRAY(SELECT name FROM own_result))
    ) AS unknown
