-- Read the moves of claimed workunits and their results, in order of time.
SELECT
    e.workunit_id,
    e.at,
    e.result_id,
    e.axis,
    e.source,
    e.target,
    e.because,
    e.by
FROM ledger_entry AS e
WHERE
    e.workunit_id = any(%(ids)s::bigint[])
    -- Partitions of other days are not read.
    AND e.at >= %(since)s::timestamptz
    AND e.at <= %(until)s::timestamptz
ORDER BY e.at, e.id
