-- Read apps that offer work in several sizes, with the boundaries of the last census.
SELECT
    id,
    n_size_classes,
    size_bounds
FROM app
WHERE n_size_classes > 1
ORDER BY id
