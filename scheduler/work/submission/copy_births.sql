-- The first entries of workunits in the ledger, as text.
COPY ledger_entry (workunit_id, at, axis, source, target, because, by) FROM STDIN
