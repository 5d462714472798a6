-- Mark results of locked workunits whose run times teach nothing.
UPDATE result
SET runtime_outlier = TRUE
WHERE id = any(%(ids)s::bigint[]) AND NOT runtime_outlier
