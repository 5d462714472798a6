"""The project's state: alerts, counts, invariants and parked subjects."""
