-- Store the current alerts; an alert that is stored already keeps the time of its beginning.
INSERT INTO alert_state AS stored (kind, subject, sentence, hint, began_at)
SELECT
    seen.kind,
    seen.subject,
    seen.sentence,
    seen.hint,
    %(now)s::timestamptz
FROM
    unnest(
        %(kinds)s::text[], %(subjects)s::text[], %(sentences)s::text[], %(hints)s::text[]
    ) AS seen (kind, subject, sentence, hint)
ON CONFLICT (kind, subject) DO UPDATE
SET
    sentence = excluded.sentence,
    hint = excluded.hint
