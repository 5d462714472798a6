-- Drops samples of erased accounts and their computers, and of merged and deleted computers.
-- The erasure and the merge drop them, but samples that are kept at the same moment can remain.
DELETE FROM credit_sample AS sample
WHERE
    (
        sample.kind = 1
        AND sample.holder_id IN (
            SELECT account.id
            FROM account
            WHERE NOT account.is_active AND account.email LIKE 'erased-%%@erased.invalid'
        )
    )
    OR (
        sample.kind = 2
        AND sample.holder_id IN (
            SELECT host.id
            FROM host
            INNER JOIN account ON host.account_id = account.id
            WHERE
                host.merged_into_id IS NOT NULL
                OR (NOT account.is_active AND account.email LIKE 'erased-%%@erased.invalid')
        )
    )
