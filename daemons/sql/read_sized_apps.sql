-- Read apps with several size classes, and the class boundaries of the last census.
SELECT
    id,
    n_size_classes,
    size_bounds
FROM app
WHERE n_size_classes > 1
ORDER BY id
