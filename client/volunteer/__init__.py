"""A small volunteer client that speaks BOINC's protocol."""

from __future__ import annotations

__version__ = "0.1.0"
