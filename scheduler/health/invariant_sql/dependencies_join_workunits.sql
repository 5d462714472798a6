-- Both workunits of every dependency exist, and have has_children or has_parents set.
SELECT
    coalesce(c.name, p.name, '#' || d.child_id) AS name,
    'dependency of #' || d.child_id || ' on #' || d.parent_id || CASE
        WHEN p.id IS NULL OR c.id IS NULL THEN ': one of them does not exist'
        ELSE ': has_parents or has_children is false'
    END AS detail
FROM dependency AS d
LEFT JOIN workunit AS p ON d.parent_id = p.id
LEFT JOIN workunit AS c ON d.child_id = c.id
WHERE
    p.id IS NULL
    OR c.id IS NULL
    OR NOT (p.has_children AND c.has_parents)
