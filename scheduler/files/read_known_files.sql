-- Reads which of these names have a row; files that are marked for deletion are included.
SELECT name
FROM file
WHERE name = any(%(names)s::text[])
