-- Lets another daemon run the app's generator.
SELECT pg_advisory_unlock(hashtextextended('generator ' || %(id)s::bigint::text, 0)) AS released
