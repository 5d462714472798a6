-- Add credit entries to the totals and recent averages of their hosts or teams by app.
INSERT INTO {{table}} AS kept ({{holder}}, app_id, total, expavg, expavg_at)
SELECT
    {{holder}},
    app_id,
    sum(amount),
    -- Entries that were made by hand do not change recent averages.
    coalesce(
        sum(
            amount::double precision * power(
                0.5::double precision,
                least(
                    100,
                    greatest(0, extract(EPOCH FROM %(now)s::timestamptz - granted_at))
                    / %(half_life)s::double precision
                )
            )
        ) FILTER (WHERE result_id IS NOT NULL),
        0
    ) * %(rate)s::double precision,
    %(now)s::timestamptz
FROM credit_entry
WHERE
    id > %(after)s::bigint
    AND id <= %(upto)s::bigint
    AND {{holder}} IS NOT NULL
    AND app_id IS NOT NULL
GROUP BY {{holder}}, app_id
ORDER BY {{holder}}, app_id
ON CONFLICT ({{holder}}, app_id) DO UPDATE
SET
    total = kept.total + excluded.total,
    expavg = excluded.expavg + kept.expavg * power(
        0.5::double precision,
        least(
            100,
            greatest(0, extract(EPOCH FROM excluded.expavg_at - kept.expavg_at))
            / %(half_life)s::double precision
        )
    ),
    expavg_at = excluded.expavg_at
