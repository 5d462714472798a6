-- Charges one attempt to a bucket unless the bucket is full.  The charge is atomic, because
-- processes share buckets.
-- `empty_at` is GCRA's theoretical arrival time.  `recorded_at` limits the audit entries about
-- refusals to one per minute.
INSERT INTO throttle_bucket AS b (key, empty_at, was_allowed)
VALUES (
    %(key)s::text,
    %(now)s::timestamptz + %(interval)s::interval,
    true
)
ON CONFLICT (key) DO UPDATE
    SET
        was_allowed = greatest(b.empty_at, %(now)s::timestamptz) + %(interval)s::interval
        <= %(now)s::timestamptz + %(window)s::interval,
        empty_at = CASE
            WHEN
                greatest(b.empty_at, %(now)s::timestamptz) + %(interval)s::interval
                <= %(now)s::timestamptz + %(window)s::interval
                THEN greatest(b.empty_at, %(now)s::timestamptz) + %(interval)s::interval
            ELSE b.empty_at
        END,
        recorded_at = CASE
            WHEN
                greatest(b.empty_at, %(now)s::timestamptz) + %(interval)s::interval
                > %(now)s::timestamptz + %(window)s::interval
                AND (
                    b.recorded_at IS NULL
                    OR b.recorded_at <= %(now)s::timestamptz - interval '1 minute'
                )
                THEN %(now)s::timestamptz
            ELSE b.recorded_at
        END
RETURNING
    b.empty_at,
    b.was_allowed,
    b.recorded_at IS NOT DISTINCT FROM %(now)s::timestamptz AS must_record
