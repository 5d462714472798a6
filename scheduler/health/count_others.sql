-- Counts accounts, hosts, woken workunits, unhandled trickles and late chores.
SELECT
    (SELECT count(*) FROM account) AS accounts,
    (SELECT count(*) FROM host) AS hosts,
    (SELECT count(DISTINCT workunit_wakeup.workunit_id) FROM workunit_wakeup) AS woken,
    (SELECT count(*) FROM trickle_up WHERE trickle_up.handled_at IS NULL) AS trickles,
    (
        SELECT count(*)
        FROM heartbeat
        WHERE heartbeat.name LIKE 'chore %%' AND heartbeat.seen_at < %(late)s::timestamptz
    ) AS late_chores
