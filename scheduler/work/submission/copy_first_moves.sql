-- Writes the first ledger entries of new workunits.
COPY ledger_entry (workunit_id, at, axis, source, target, because, by) FROM STDIN
