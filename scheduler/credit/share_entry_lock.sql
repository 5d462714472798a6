-- Wait while the end of the credit entries is read, before an entry is inserted by hand.
SELECT pg_advisory_xact_lock_shared(hashtextextended('credit entries', 0))
