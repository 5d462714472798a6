-- Reads which of these names workunits already have.
SELECT workunit.name
FROM unnest(%(names)s::text[]) AS wanted (name)
CROSS JOIN LATERAL (
    SELECT name
    FROM workunit
    WHERE name = wanted.name
    LIMIT 1
) AS workunit
