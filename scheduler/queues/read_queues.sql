-- Reads every queue with its rules for dispatch.  `version` is the transaction that wrote the row:
-- a claim sends results of a queue only if the row has not changed since.
SELECT
    id,
    name,
    xmin::text::bigint AS version,
    app_id,
    max_in_progress,
    "order",
    priority_group,
    disabled_until,
    allowed_hosts,
    denied_hosts,
    allowed_accounts,
    denied_accounts,
    max_new_per_claim,
    max_new_per_host
FROM queue
ORDER BY id
