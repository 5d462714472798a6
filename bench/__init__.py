"""Benchmarks of this project, compared with pgbench and with BOINC's own server."""

from __future__ import annotations

#: The parts that can be measured separately, in the order of measurement.
PARTS = ("rpc", "uploads", "passes", "claims", "pipeline", "latency", "statements")
