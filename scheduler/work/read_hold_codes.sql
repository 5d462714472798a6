-- Reads the codes of held workunits, which are negative, highest first.  Each code takes one look-up
-- in the index read_held_workunits, so that not all held workunits are read.
WITH RECURSIVE found AS (
    SELECT
        0::smallint AS hold_code,
        0 AS position
    UNION ALL
    SELECT
        (
            SELECT w.hold_code
            FROM workunit AS w
            WHERE w.hold_code IS NOT NULL AND w.hold_code < found.hold_code
            ORDER BY w.hold_code DESC
            LIMIT 1
        ),
        found.position + 1
    FROM found
    WHERE found.hold_code IS NOT NULL AND found.position < %(limit)s::integer
)

SELECT hold_code FROM found
WHERE hold_code < 0
