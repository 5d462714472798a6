-- What happened to claimed workunits and their results, in the order in which it happened.
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
    -- Days in which nothing can have happened to them are not looked at.
    AND e.at >= %(oldest)s::timestamptz
    AND e.at <= %(now)s::timestamptz
ORDER BY e.at, e.id
