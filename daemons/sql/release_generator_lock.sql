-- Release the lock of an app's generator, so that another daemon can run it.
SELECT pg_advisory_unlock(hashtextextended('generator ' || %(id)s::bigint::text, 0)) AS released
