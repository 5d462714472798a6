-- Wakes the transitioner for new workunits.
COPY workunit_wakeup (workunit_id, inserted_at) FROM STDIN
