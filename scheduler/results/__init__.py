"""Results: reports, replication, validation requests and outages."""
