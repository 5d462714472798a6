-- Locks the dependencies between the workunits of a submitter (0: of workunits without a batch).
SELECT pg_advisory_xact_lock(hashtextextended('dependencies ' || %(account_id)s::bigint::text, 0))
