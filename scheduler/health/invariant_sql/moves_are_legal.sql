-- Every move in the ledger is in the law, with its reason and its actor.
WITH law AS (
    SELECT *
    FROM unnest(
        %(axes)s::smallint[],
        %(sources)s::smallint[],
        %(targets)s::smallint[],
        %(becauses)s::smallint[],
        %(bys)s::smallint[]
    ) AS m (axis, source, target, because, by)
),

illegal AS (
    SELECT axis, source, target, because, by
    FROM ledger_entry
    EXCEPT
    SELECT axis, source, target, because, by
    FROM law
)

SELECT
    'workunit ' || e.workunit_id || coalesce(', result ' || e.result_id, '') AS name,
    'axis ' || e.axis || ': ' || e.source || ' to ' || e.target || ' because ' || e.because
        || ' by ' || e.by AS detail
FROM ledger_entry AS e
INNER JOIN illegal USING (axis, source, target, because, by)
