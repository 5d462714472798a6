-- Which of these names belong to a file that the database knows, doomed ones included.
SELECT name
FROM file
WHERE name = any(%(names)s::text[])
