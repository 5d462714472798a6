"""Measures this project, and compares it with pgbench and BOINC's own server."""

from __future__ import annotations

#: The parts that can be measured separately, in the order of measurement.
PARTS = ("rpc", "uploads", "passes", "claims", "pipeline", "latency", "statements")
