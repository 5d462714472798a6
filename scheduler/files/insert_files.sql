-- Inserts new contents; a content that a concurrent submission has inserted is not returned.
-- Inserts in order of content, so that submissions of the same contents cannot deadlock.
INSERT INTO file (id, name, sha256, md5, nbytes, created_at)
SELECT
    new.id,
    new.name,
    new.sha256,
    new.md5,
    new.nbytes,
    %(now)s::timestamptz
FROM unnest(
    %(ids)s::bigint[],
    %(names)s::text[],
    %(sha256)s::text[],
    %(md5)s::text[],
    %(nbytes)s::bigint[]
) AS new (id, name, sha256, md5, nbytes)
ORDER BY new.sha256
ON CONFLICT (sha256) WHERE doomed_at IS NULL DO NOTHING
RETURNING id, name, sha256, nbytes
