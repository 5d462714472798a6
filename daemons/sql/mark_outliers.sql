-- Mark results of locked workunits whose run times are excluded from averages.
UPDATE result
SET runtime_outlier = TRUE
WHERE id = any(%(ids)s::bigint[]) AND NOT runtime_outlier
