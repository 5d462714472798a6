-- Computes the counts of locked children from their edges; returns when a dependency failed.
-- Run it after the statement that locks the children, so that it sees all earlier answers.  The
-- count of a released child stays 0, also if a parent loses its answer by a revalidation.
WITH counted AS (
    SELECT
        child.id,
        edges.unmet,
        edges.has_failed
    FROM unnest(%(ids)s::bigint[]) AS child (id)
    -- One look-up per child, and by OFFSET 0 one per parent: while a new table has no statistics, a
    -- join may read the whole table.
    CROSS JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE p.canonical_result_id IS NULL) AS unmet,
            coalesce(bool_or(p.error_mask <> 0), FALSE) AS has_failed
        FROM dependency AS d
        CROSS JOIN LATERAL (SELECT * FROM workunit WHERE id = d.parent_id OFFSET 0) AS p
        WHERE d.child_id = child.id
    ) AS edges
),

updated AS (
    UPDATE workunit AS w
    SET pending_dependency_count = counted.unmet + w.waits_for_batch::integer
    FROM counted
    WHERE
        w.id = counted.id
        AND w.id = any(%(ids)s::bigint[])
        AND w.canonical_result_id IS NULL
        AND w.error_mask = 0
        AND w.release_state = {{ReleaseState.INACTIVE}}
    RETURNING w.id, w.pending_dependency_count
)

SELECT
    w.id,
    coalesce(updated.pending_dependency_count, w.pending_dependency_count)
        AS pending_dependency_count,
    -- The column contains the failure of a batch.  That of a parent is not stored: if the edge is
    -- removed before the transitioner looks, the failure has no effect.
    CASE
        WHEN counted.has_failed THEN coalesce(w.dependency_failed_at, %(now)s::timestamptz)
        ELSE w.dependency_failed_at
    END AS dependency_failed_at
FROM counted
INNER JOIN workunit AS w ON counted.id = w.id
LEFT JOIN updated ON w.id = updated.id
WHERE w.id = any(%(ids)s::bigint[])
