-- Read the recent averages of locked accounts by app.
SELECT
    account_id,
    app_id,
    expavg AS expavg_credit,
    expavg_at
FROM account_app_credit
WHERE
    (account_id, app_id) IN (
        SELECT
            u.account_id,
            u.app_id
        FROM unnest(%(account_ids)s::bigint[], %(app_ids)s::bigint[]) AS u (account_id, app_id)
    )
