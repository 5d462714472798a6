-- Has one daemon at a time run an app's generator; the lock is the session's, no transaction is open.
SELECT pg_try_advisory_lock(hashtextextended('generator ' || %(id)s::bigint::text, 0)) AS locked
