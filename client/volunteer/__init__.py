"""A small volunteer client for projects that use BOINC's protocol."""

from __future__ import annotations

__version__ = "0.1.0"
