"""Commands of the wiring: the embedded PostgreSQL."""
