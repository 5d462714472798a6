-- Try to lock an app's generator, so that one daemon at a time runs it; the session holds the lock.
SELECT pg_try_advisory_lock(hashtextextended('generator ' || %(id)s::bigint::text, 0)) AS locked
