-- Wake the workunits that depend on these workunits.
INSERT INTO workunit_wakeup (workunit_id, inserted_at)
SELECT DISTINCT
    child_id,
    %(now)s::timestamptz
FROM dependency
WHERE parent_id = any(%(ids)s::bigint[])
