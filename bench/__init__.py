"""What is measured, beside what the database can do and what the peer does."""

from __future__ import annotations

#: What can be measured by itself, in the order in which it is done.
PARTS = ("rpc", "uploads", "passes", "claims", "pipeline", "latency", "statements")
