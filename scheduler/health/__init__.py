"""Reads the project's alerts, counts, invariants and parked subjects."""
