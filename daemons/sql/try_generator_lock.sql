-- Lock an app's generator, which one daemon at a time runs; a session lock needs no transaction.
SELECT pg_try_advisory_lock(hashtextextended('generator ' || %(id)s::bigint::text, 0)) AS locked
