-- Reads the names among these that have a row, including files that are marked for deletion.
SELECT name
FROM file
WHERE name = any(%(names)s::text[])
