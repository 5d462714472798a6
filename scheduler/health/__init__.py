"""The project's state: alerts, counts, invariants, parked science."""
