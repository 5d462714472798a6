-- Removes an account and its computers from the deletions that statistics sites read.
DELETE FROM statistics_deletion
WHERE
    (kind = %(account_kind)s::smallint AND number = %(account_id)s::bigint)
    OR (
        kind = %(host_kind)s::smallint
        AND number IN (
            SELECT host.id
            FROM host
            -- A deleted host refers to itself, and stays listed.
            WHERE
                host.account_id = %(account_id)s::bigint
                AND host.merged_into_id IS DISTINCT FROM host.id
        )
    )
