-- Wait for the transactions that have inserted credit entries.
SELECT pg_advisory_xact_lock(hashtextextended('credit entries', 0))
